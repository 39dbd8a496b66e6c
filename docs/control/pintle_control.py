"""Drives a cluster that runs as `pintle up --ephemeral --control`, with nothing but Python's standard library.

    from pintle_control import Cluster

    cluster = Cluster("/tmp/kubeconfig")
    cluster.fault("my-operator", "fail", code=409)     # its next write meets a conflict
    cluster.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
    cluster.settle()                                   # until everything that can happen has happened
    cluster.advance("24h")                             # a day passes in seconds
    with cluster.fork() as fork:                       # a copy that goes its own way
        assert fork.snapshot() == cluster.snapshot()

The protocol is in docs/control.md. Copy this file into your project if you like.
"""

import base64
import http.client
import json
import os
import ssl
import tempfile
from urllib.parse import urlsplit


class Refused(Exception):
    """An answer that is not 2xx: `code` and the Status that the server sent."""

    def __init__(self, code, status):
        message = status.get("message", status) if isinstance(status, dict) else status
        super().__init__(f"{code}: {message}")
        self.code = code
        self.status = status


class Cluster:
    """A cluster behind a kubeconfig that pintle wrote (pintle writes JSON, which is YAML too)."""

    def __init__(self, kubeconfig, agent="pintle-control-test"):
        """`kubeconfig` is a path or the text itself; `agent` is the name that requests are signed with."""
        text = kubeconfig
        if not text.lstrip().startswith("{"):
            with open(kubeconfig, encoding="utf-8") as file:
                text = file.read()
        self.config = json.loads(text)
        self.agent = agent
        self.server = self.config["clusters"][0]["cluster"]["server"]
        self._tls = self._context()
        self._fork = None

    def _context(self):
        def decoded(holder, key):
            return base64.b64decode(holder[key]).decode()

        user = self.config["users"][0]["user"]
        authority = decoded(self.config["clusters"][0]["cluster"], "certificate-authority-data")
        context = ssl.create_default_context(cadata=authority)
        # The module reads a client's certificate from a file only.
        with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
            file.write(decoded(user, "client-certificate-data") + decoded(user, "client-key-data"))
        try:
            context.load_cert_chain(file.name)
        finally:
            os.unlink(file.name)
        return context

    # Requests to the API.

    def request(self, method, path, body=None, media="application/json"):
        """Sends a request and returns the answer's JSON; raises Refused."""
        connection, answer = self._send(method, path, body, media)
        with connection:
            content = answer.read()
        return json.loads(content) if content else None

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body=None):
        return self.request("POST", path, body)

    def put(self, path, body):
        return self.request("PUT", path, body)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path):
        return self.request("DELETE", path)

    def watch(self, path):
        """Yields the events of a watch until the server ends it."""
        connection, answer = self._send("GET", path + ("&" if "?" in path else "?") + "watch=true")
        with connection:
            for line in answer:
                yield json.loads(line)

    def _send(self, method, path, body=None, media="application/json"):
        parts = urlsplit(self.server)
        connection = _Connection(parts.hostname, parts.port, context=self._tls)
        headers = {"User-Agent": f"{self.agent}/1.0", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = media
            body = json.dumps(body)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise Refused(answer.status, _parsed(answer.read()))
        except BaseException:
            connection.close()
            raise
        return connection, answer

    # The control.

    def settle(self, **options):
        """Returns when everything rests; options: quiet, virtualQuiet, timeout. Refused(408) says what does not."""
        return self.post("/control/settle", options)

    def advance(self, by, **options):
        """Moves the cluster's time; options: step, quiet, timeout."""
        return self.post("/control/advance", {"by": by, **options})

    def time(self, mode=None):
        """The cluster's time; with a mode ("manual", "follow") sets how it moves."""
        return self.get("/control/time") if mode is None else self.post("/control/time", {"mode": mode})

    def fault(self, agent, fault, **options):
        """Plans a fault for whoever's user agent begins with `agent`; `duration` is sent as "for"."""
        if "duration" in options:
            options["for"] = options.pop("duration")
        return self.post("/control/faults", {"agent": agent, "fault": fault, **options})["faults"]

    def faults(self):
        """What is planned, and how often it was met."""
        return self.get("/control/faults")["faults"]

    def lift_faults(self):
        return self.delete("/control/faults")["faults"]

    def snapshot(self):
        """The state as a value that two runs can be compared by."""
        return self.post("/control/snapshot")

    def trace(self):
        """A hash of everything written since the start."""
        return self.get("/control/trace")["hash"]

    def fork(self):
        """A copy on another port, ended by `end()` or at the end of a `with`."""
        answer = self.post("/control/fork")
        fork = Cluster(answer["kubeconfig"], self.agent)
        fork._fork = (self, answer["id"])
        return fork

    def end(self):
        """Ends this fork."""
        if self._fork:
            parent, number = self._fork
            self._fork = None
            parent.delete(f"/control/forks/{number}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class _Connection(http.client.HTTPSConnection):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _parsed(content):
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
