"""What the tests of the studies can collect."""

from importlib.util import find_spec

#: The benchmarks with other tests, all of them, import PyTorch.
collect_ignore_glob = [] if find_spec("torch") else ["**/test_peers.py", "**/peers/*.py"]
