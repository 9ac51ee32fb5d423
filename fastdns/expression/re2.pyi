#: RE2's functions, for `fastdns.expression.matcher`; the module is there only where fastdns was built with libre2.
functions: object
