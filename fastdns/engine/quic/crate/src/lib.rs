//! quiche's C functions (its feature `ffi`) and BoringSSL's, collected in one static library, with what quiche has no C function for.

use log as _;
use std::time::Duration;

/// `Config::set_initial_rtt`.
#[no_mangle]
pub extern "C" fn fastdns_config_set_initial_rtt(config: &mut quiche::Config, milliseconds: u64) {
    config.set_initial_rtt(Duration::from_millis(milliseconds));
}
