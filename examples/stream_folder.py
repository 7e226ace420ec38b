"""Stream a folder of images to a running service: each subfolder is a class, each file arrives once.

puridiver serve shop --image-size 32            in one terminal
python examples/stream_folder.py pictures/      in another

It sends the images in random order, shows the labels that look wrong on arrival, and may be stopped and started again:
while the folder stays as it is, a file that the service has acknowledged is not learnt twice.
"""

import argparse
import hashlib
import os
import random
from pathlib import Path

from puridiver.service.client import Client

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--batch", type=int, default=16, help="images of a request")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for the verdict of each batch")
    args = parser.parse_args()

    files = sorted(path for path in args.folder.glob("*/*") if path.suffix.lower() in ENDINGS)
    if not files:
        parser.error(
            f"{args.folder} has no images in subfolders: name a folder such as pictures/ with pictures/cat/1.png"
        )
    random.Random(0).shuffle(files)  # the same order each time, so that the same batches have the same keys
    with Client(args.url, os.environ.get("PURIDIVER_TOKEN")) as client:
        for start in range(0, len(files), args.batch):
            batch = files[start : start + args.batch]
            names = [path.relative_to(args.folder).as_posix() for path in batch]
            key = hashlib.sha256("\0".join(names).encode()).hexdigest()
            labels = [path.parent.name for path in batch]
            answer = client.observe(batch, labels, ids=names, wait=args.wait, key=key)
            for name, label, verdict in zip(names, labels, (answer["result"] or {}).get("verdicts", []), strict=False):
                if verdict["suggested"] != label:
                    print(f"{name}: labelled {label}, looks like {verdict['suggested']}")
            print(f"{answer['first'] + answer['count']:,} images are safe with the service", end="\r")
        print()
        print(
            f"it agrees with {client.status()['agreement'] or 0:.0%} of the labels that arrive; {args.url} shows more"
        )


if __name__ == "__main__":
    main()
