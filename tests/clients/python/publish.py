"""Logs in to a registry and publishes a component there, by the official client for Python.

Arguments: REGISTRY REPOSITORY:TAG FILE USER PASSWORD. Prints the manifest's digest. The credentials stay in the file of
Docker's tools, below HOME.
"""

import sys

from oras.client import OrasClient

registry, repository, file, user, password = sys.argv[1:]
client = OrasClient(hostname=registry, insecure=True, auth_backend="basic")
client.login(hostname=registry, username=user, password=password)
answer = client.push(
    target=f"{registry}/{repository}",
    files=[f"{file}:application/wasm"],
    disable_path_validation=True,
    quiet=True,
)
print(answer.headers["Docker-Content-Digest"])
