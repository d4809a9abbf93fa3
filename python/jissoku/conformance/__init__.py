"""Protocol cases for any server or reverse proxy: sending, observing, evaluating."""
