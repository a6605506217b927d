"""A discrete-event simulation of a deployment: waiting times, lateness, cost, and the load at which they break."""
