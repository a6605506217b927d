"""Reading artifacts: who may, of which run, links, errors, missing ones, lists and pages (contract 7.6)."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import requests

from shared.base.ids import new_slugid
from tests.promises.host.artifacts import TIMEOUT, Run
from tests.promises.host.service import Service, refused

READS = ("getArtifact", "artifact")
LATEST_READS = ("getLatestArtifact", "latestArtifact")
TYPE_HEADER = "x-taskcluster-artifact-storage-type"


def get(run: Run, route: str, **headers: str) -> requests.Response:
    """Sends a plain request with a signature in the URL, which follows nothing."""
    url = run.service.queue.buildSignedUrl("getArtifact", run.task_id, 0, route)
    return requests.get(url, headers=headers, allow_redirects=False, timeout=TIMEOUT)


def test_a_redirection_has_the_url_twice(run: Run) -> None:
    run.upload("public/log", b"log")
    answer = get(run, "public/log")
    assert answer.status_code == 303
    assert answer.headers[TYPE_HEADER] == "s3"
    assert answer.json() == {"storageType": "s3", "url": answer.headers["location"]}
    assert requests.get(answer.headers["location"], timeout=TIMEOUT).content == b"log"


def test_who_may_read(service: Service, run: Run) -> None:
    """Whether somebody may read an artifact depends on its name alone, whichever task it is of."""
    run.upload("private/a", b"a")
    for read in READS:
        with refused(403, "InsufficientScopes"):
            getattr(service.anonymous, read)(run.task_id, 0, "private/a")
        with refused(403, "InsufficientScopes"):
            getattr(service.with_scopes("queue:get-artifact:private/b*"), read)(run.task_id, 0, "private/a")
        assert getattr(service.with_scopes("queue:get-artifact:private/a"), read)(run.task_id, 0, "private/a")
    for read in LATEST_READS:
        assert getattr(service.with_scopes("queue:get-artifact:private/*"), read)(run.task_id, "private/a")


def test_scopes_and_existence_in_their_order(service: Service, run: Run) -> None:
    """getLatestArtifact checks the scopes first, latestArtifact the existence of the task (trap 7)."""
    unknown, nobody = new_slugid(), service.anonymous
    for read in READS:
        with refused(403, "InsufficientScopes"):
            getattr(nobody, read)(unknown, 0, "public/a")
        with refused(404, "ResourceNotFound"):
            getattr(service.queue, read)(unknown, 0, "public/a")
        with refused(404, "ResourceNotFound"):
            getattr(service.queue, read)(run.task_id, 10**30, "public/a")
    with refused(403, "InsufficientScopes"):
        nobody.getLatestArtifact(unknown, "public/a")
    with refused(404, "ResourceNotFound"):
        nobody.latestArtifact(unknown, "public/a")
    with refused(403, "InsufficientScopes"):
        nobody.latestArtifact(run.task_id, "public/a")
    unscheduled = service.create(dependencies=[run.task_id])
    for read in (*LATEST_READS, "latestArtifactInfo"):
        with refused(404, "ResourceNotFound"):
            getattr(service.queue, read)(unscheduled, "public/a")


def test_links_are_followed_with_the_scopes_of_every_name(service: Service, run: Run) -> None:
    run.upload("private/3", b"end")
    run.link("private/2", "private/3")
    run.link("public/1", "private/2")
    assert run.fetch("public/1").content == b"end"
    assert get(run, "public/1").headers[TYPE_HEADER] == "s3"
    names = ["public/1", "private/2", "private/3"]
    for missing in names:
        client = service.with_scopes(*(f"queue:get-artifact:{name}" for name in names if name != missing))
        with refused(403, "InsufficientScopes"):
            client.getArtifact(run.task_id, 0, "public/1")
    client = service.with_scopes(*(f"queue:get-artifact:{name}" for name in names))
    assert client.getArtifact(run.task_id, 0, "public/1")["storageType"] == "s3"
    assert run.info("public/1") == {
        "storageType": "link",
        "name": "public/1",
        "expires": run.expires,
        "contentType": "application/binary",
    }


def test_signed_urls_are_short_lived_and_say_what_the_content_is(run: Run) -> None:
    run.upload("private/a report.html", b"<p>", "text/html; charset=utf-8")
    url = run.url_of("private/a report.html")
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert query["sp"] == "r"
    answer = requests.get(url, timeout=TIMEOUT)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == 'inline; filename="a report.html"'
    for change in ({"sp": "rw"}, {"se": "2099-01-01T00:00:00Z"}):
        forged = requests.get(url.split("?", 1)[0], params={**query, **change}, timeout=TIMEOUT)
        assert forged.status_code == 403
    assert requests.put(url, data=b"x", headers={"x-ms-blob-type": "BlockBlob"}, timeout=TIMEOUT).status_code == 403
