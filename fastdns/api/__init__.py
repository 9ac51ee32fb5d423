"""What a native plugin cimports: see ``docs/native-plugin-api.md``, and the ``.pxd`` files beside this one."""
