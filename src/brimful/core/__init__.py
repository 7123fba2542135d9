"""The pure heart: values and the stages that turn candidates into a verified request.

Nothing in here reads a clock, a file, the environment or the network, and nothing draws a random number.
"""
