//! quiche's C functions (its feature `ffi`) and BoringSSL's, collected in one static library.

use log as _;
use quiche as _;
