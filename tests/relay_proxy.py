"""A small reverse proxy for tests, as a recipe."""

from pathlib import Path

# Passes bytes on in both directions, one connection for each client: right in what it does not
# touch, and wrong wherever a gateway has to act.
RELAY = """
import socket, sys, threading
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    client, _ = listener.accept()
    try:
        server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    except OSError:
        client.close()
        continue
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
"""

RECIPE = """
description = "Passes bytes on."
limitations = "All."
install = "none"
capabilities = ["hello"]
program = "{{python}}"

[version]
command = ["{{python}}", "--version"]
pattern = 'Python (\\S+)'

[start]
command = ["{{program}}", "{script}", "{{listen}}", "{{upstreams}}"]

[listen]
tcp = ["{{port}}"]

[forward]
tcp = "{{upstream_port}}"
behind = "http-server"
"""


def write_recipe(folder: Path) -> Path:
    """Writes the recipe `relay` into a folder, and returns the folder."""
    folder.mkdir(parents=True)
    script = folder / "relay.py"
    script.write_text(RELAY)
    (folder / "relay.toml").write_text(RECIPE.format(script=script))
    return folder
