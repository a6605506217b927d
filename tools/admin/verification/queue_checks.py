"""Storage queues: visibility, lifetimes, receipts, counts."""

from __future__ import annotations

from tools.admin.verification.core import Check, Deployment, expect, refused

WEEK = 7 * 24 * 3600
LARGEST = 64 * 1024


def hides_for_a_week(deployment: Deployment) -> None:
    """A message can be hidden for exactly seven days, when it is put and later; no second longer."""
    queue = deployment.queue()
    sent = queue.send_message("a", visibility_timeout=WEEK, time_to_live=-1)
    queue.update_message(sent.id, sent.pop_receipt, visibility_timeout=WEEK, content="a")
    refused(
        "hiding for a second longer",
        lambda: queue.send_message("a", visibility_timeout=WEEK + 1, time_to_live=-1),
        "OutOfRangeQueryParameterValue",
    )


def lives_for_any_time(deployment: Deployment) -> None:
    """A message may live for a year, or for ever."""
    queue = deployment.queue()
    queue.send_message("a", time_to_live=365 * 24 * 3600)
    queue.send_message("a", time_to_live=-1)


def receipts_change(deployment: Deployment) -> None:
    """An update returns a new receipt, and the old one is refused from then on."""
    queue = deployment.queue()
    sent = queue.send_message("a", time_to_live=-1)
    taken = queue.receive_message(visibility_timeout=30)
    expect(taken is not None, "a message that was put is not there")
    assert taken is not None
    moved = queue.update_message(taken.id, taken.pop_receipt, visibility_timeout=30, content="b")
    expect(moved.pop_receipt != taken.pop_receipt, "an update leaves the receipt")
    refused(
        "an old receipt",
        lambda: queue.delete_message(sent.id, taken.pop_receipt),
        "PopReceiptMismatch",
        "MessageNotFound",
    )
    queue.delete_message(moved.id, moved.pop_receipt)


def receipt_of_the_put(deployment: Deployment) -> None:
    """Checks that whoever puts a message may change and remove it without receiving it."""
    queue = deployment.queue()
    sent = queue.send_message("a", visibility_timeout=60, time_to_live=-1)
    moved = queue.update_message(sent.id, sent.pop_receipt, visibility_timeout=90, content="b")
    queue.delete_message(moved.id, moved.pop_receipt)


def dequeue_counts(deployment: Deployment) -> None:
    """Receiving a message raises its dequeue count, updating it does not."""
    queue = deployment.queue()
    queue.send_message("a", time_to_live=-1)
    counts = []
    for _ in range(2):
        taken = queue.receive_message(visibility_timeout=30)
        expect(taken is not None, "a message that was made visible is not there")
        assert taken is not None
        counts.append(taken.dequeue_count)
        queue.update_message(taken.id, taken.pop_receipt, visibility_timeout=0, content="a")
    expect(counts == [1, 2], f"received twice and updated twice, a message has the counts {counts}")


def counts_the_hidden(deployment: Deployment) -> None:
    """The approximate number of messages includes hidden ones."""
    queue = deployment.queue()
    queue.send_message("a", visibility_timeout=3600, time_to_live=-1)
    count = queue.get_queue_properties().approximate_message_count
    expect(count == 1, f"with one hidden message the count is {count}")


def takes_64_kib(deployment: Deployment) -> None:
    """A message has 64 KiB at most."""
    queue = deployment.queue()
    queue.send_message("a" * LARGEST, time_to_live=-1)
    refused(
        "a larger message",
        lambda: queue.send_message("a" * (LARGEST + 1), time_to_live=-1),
        "RequestBodyTooLarge",
        "MessageTooLarge",
    )


CHECKS = (
    Check("hidden-for-a-week", hides_for_a_week),
    Check("any-lifetime", lives_for_any_time),
    Check("receipts-change", receipts_change),
    Check("receipt-of-the-put", receipt_of_the_put),
    Check("dequeue-counts", dequeue_counts),
    Check("count-includes-hidden", counts_the_hidden),
    Check("message-size", takes_64_kib),
)
