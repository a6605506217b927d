"""What deployments, pipelines and hooks come to, kept as text: a change of any value, order or condition is seen there.

The templates are evaluated, and the steps of pipelines and hooks run with tools that write down what they were called
with. `python -m tests.infra.kept` writes the texts anew; their difference is read like that of the code, and between
two releases it is what an upgrade changes.
"""
