#: RE2's functions, for `fastdns._regex`; the module is there only where fastdns was built with libre2.
functions: object
