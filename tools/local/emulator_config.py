"""Writes the topics for Microsoft's emulator (tools/compose.yaml): `python -m tools.local.emulator_config`."""

import json

from shared.queue.events.exchanges import TOPICS
from tools.local.state import ROOT

FILE = ROOT / ".local" / "service-bus.json"
SUBSCRIPTION = "all"
"""Name of the match-all subscription of each topic; others are added to the file by hand."""


def document() -> str:
    """Returns every topic with duplicate detection, in the longest window and life that the emulator allows."""
    topics = [
        {
            "Name": topic,
            "Properties": {
                "DefaultMessageTimeToLive": "PT1H",
                "DuplicateDetectionHistoryTimeWindow": "PT5M",
                "RequiresDuplicateDetection": True,
            },
            "Subscriptions": [
                {
                    "Name": SUBSCRIPTION,
                    "Properties": {
                        "DeadLetteringOnMessageExpiration": False,
                        "DefaultMessageTimeToLive": "PT1H",
                        "LockDuration": "PT1M",
                        "MaxDeliveryCount": 10,
                        "ForwardDeadLetteredMessagesTo": "",
                        "ForwardTo": "",
                        "RequiresSession": False,
                    },
                    "Rules": [],
                }
            ],
        }
        for topic in TOPICS
    ]
    namespace = {"Name": "sbemulatorns", "Queues": [], "Topics": topics}
    config = {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "Console"}}}
    return json.dumps(config, indent=2) + "\n"


def main() -> None:
    """Writes the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
