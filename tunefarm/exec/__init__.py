"""Programs of a farm under TVM's names: `python -m tunefarm.exec.rpc_tracker` is `tunefarm tracker`."""
