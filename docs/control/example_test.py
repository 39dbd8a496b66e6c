"""A tiny operator in Python and its test, against `pintle up --ephemeral --control`.

    python3 example_test.py KUBECONFIG

The operator paints every ConfigMap that asks for a colour: label `colour` becomes annotation `painted`. It is a thread
here, so that one file shows everything; a real one is a program of its own with a user agent of its own.
"""

import sys
import threading

from pintle_control import Cluster, Refused

MAPS = "/api/v1/namespaces/default/configmaps"


class Operator(threading.Thread):
    """Watches ConfigMaps and reconciles each that changes; a conflict means: read again and retry."""

    def __init__(self, kubeconfig):
        super().__init__(daemon=True)
        self.cluster = Cluster(kubeconfig, agent="painter")
        self.conflicts = 0

    def run(self):
        while True:
            try:
                # Without a version, the watch begins with everything that is there.
                for event in self.cluster.watch(MAPS):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self.reconcile(event["object"]["metadata"]["name"])
            except (OSError, EOFError, Refused):
                continue  # The watch broke: begin again.

    def reconcile(self, name):
        while True:
            painted = self.cluster.get(f"{MAPS}/{name}")
            wanted = painted["metadata"].get("labels", {}).get("colour")
            annotations = painted["metadata"].setdefault("annotations", {})
            if wanted is None or annotations.get("painted") == wanted:
                return
            annotations["painted"] = wanted
            try:
                self.cluster.put(f"{MAPS}/{name}", painted)
                return
            except Refused as refused:
                if refused.code != 409:
                    raise
                self.conflicts += 1


def main(kubeconfig):
    cluster = Cluster(kubeconfig)
    cluster.time("manual")
    operator = Operator(kubeconfig)
    operator.start()

    def colour_of(name):
        return cluster.get(f"{MAPS}/{name}")["metadata"].get("annotations", {}).get("painted")

    def create(name, colour):
        cluster.post(MAPS, {"metadata": {"name": name, "labels": {"colour": colour}}})

    # Its first write meets a conflict, and the end is the same.
    cluster.fault("painter", "fail", code=409, resource="configmaps")
    create("a", "red")
    cluster.settle()
    assert colour_of("a") == "red", colour_of("a")
    assert operator.conflicts == 1, operator.conflicts
    assert cluster.faults()[0]["met"] == 1, cluster.faults()
    cluster.lift_faults()

    # The write commits, and all connections of the operator break: it comes back and finds its work done.
    cluster.fault("painter", "sever", nth=1)
    create("b", "blue")
    cluster.settle()
    assert colour_of("b") == "blue", colour_of("b")
    cluster.lift_faults()

    # It sees nothing for an hour, then everything.
    cluster.fault("painter", "hold", duration="1h")
    create("c", "green")
    cluster.advance("30m")
    assert colour_of("c") is None, colour_of("c")
    before = cluster.time()["now"]
    cluster.advance("1h")
    assert cluster.time()["now"][:13] != before[:13], "an hour has passed"
    cluster.settle()
    assert colour_of("c") == "green", colour_of("c")

    # A copy goes its own way.
    with cluster.fork() as fork:
        assert fork.snapshot()["objects"] == cluster.snapshot()["objects"]
        fork.delete(f"{MAPS}/a")
        assert fork.snapshot() != cluster.snapshot()
    print("passed")


if __name__ == "__main__":
    main(sys.argv[1])
