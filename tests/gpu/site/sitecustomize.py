"""Puts the stand-in into the child processes that Inductor tunes in; they inherit PYTHONPATH and the variable."""

import os

if os.environ.get("INDUCTOR_FLYDSL_STAND_IN") == "1":
    import stand_in

    stand_in.install_on_import()
