"""What packaging/containers says fits the service's unit: the same image, capabilities and socket."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / "packaging" / "containers" / name).read_text())


def capabilities() -> set[str]:
    unit = (ROOT / "packaging" / "foretelld.service").read_text()
    line = next(line for line in unit.splitlines() if line.startswith("AmbientCapabilities="))
    return {word.removeprefix("CAP_") for word in line.partition("=")[2].split()}


def version() -> str:
    lines = (ROOT / "Cargo.toml").read_text().splitlines()
    return next(line for line in lines if line.startswith("version = ")).split('"')[1]


def test_compose_gives_the_service_what_its_unit_gives_it() -> None:
    services = read("compose.yaml")["services"]
    service = services["foretelld"]
    assert set(service["cap_add"]) == capabilities() and service["cap_drop"] == ["ALL"]
    assert service["pid"] == "host" and service["command"][0] == "foretelld"
    assert {one["image"] for one in services.values()} == {f"localhost/foretell:{version()}"}
    assert all("socket:/run/foretell" in one["volumes"] for one in services.values())


def test_a_daemonset_gives_the_service_what_its_unit_gives_it() -> None:
    manifest = read("daemonset.yaml")
    template = manifest["spec"]["template"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "DaemonSet")
    assert manifest["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    context = container["securityContext"]
    assert set(context["capabilities"]["add"]) == capabilities()
    assert context["capabilities"]["drop"] == ["ALL"] and template["spec"]["hostPID"]
    assert container["image"].endswith(f":{version()}") and container["args"][0] == "foretelld"
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    held = {volume["name"]: volume["hostPath"]["path"] for volume in template["spec"]["volumes"]}
    assert mounted == held == {"socket": "/run/foretell"}
