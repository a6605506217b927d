"""Checks of the templates below infra/ without Azure: parse, evaluate, compare with Microsoft's resource types."""
