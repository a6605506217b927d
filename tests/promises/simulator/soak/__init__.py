"""Virtual weeks of a deployment in the simulator, one after the other: does anything stay, does anything grow?"""
