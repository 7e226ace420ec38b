"""WebVision and Food-101N as their homes publish them, made small."""

from __future__ import annotations

from pathlib import Path

from tests.wild import speckled


def write_webvision(root: Path, classes: int = 52, per_class: int = 3) -> Path:
    """The first of the classes have images; the two after the 50th must not be read."""
    folder = root / "webvision"
    for name in ("info", "val_images_256"):
        (folder / name).mkdir(parents=True)
    words = [f"n{1000 + c:08d} thing {c}, Res {c}" for c in range(classes)]
    (folder / "info" / "synsets.txt").write_text("\n".join(words) + "\n")
    train, test = [], []
    for c in range(classes):
        (folder / "google" / f"q{c:04d}").mkdir(parents=True)
        for i in range(per_class):
            name = f"google/q{c:04d}/{c}_{i}.jpg"
            speckled((c * 4, 255 - c * 4, 90), 100 * c + i).save(folder / name)
            train.append(f"{name} {c}")
        speckled((c * 4, 255 - c * 4, 90), 9000 + c).save(folder / "val_images_256" / f"val{c:06d}.jpg")
        test.append(f"val{c:06d}.jpg {c}")
    (folder / "info" / "train_filelist_google.txt").write_text("\n".join(train) + "\n")
    (folder / "info" / "val_filelist.txt").write_text("\n".join(test) + "\n")
    return folder


def write_food101n(root: Path, classes: int = 101) -> Path:
    folder = root / "Food-101N_release"
    (folder / "meta").mkdir(parents=True)
    names = [f"dish_{c}" for c in range(classes)]
    (folder / "meta" / "classes.txt").write_text("class_name\n" + "\n".join(names) + "\n")
    for part, per_class in (("train", 2), ("val", 1)):
        lines = ["class_name/key\tverification_label"]
        for c, name in enumerate(names):
            (folder / "images" / name).mkdir(parents=True, exist_ok=True)
            for i in range(per_class):
                speckled((c * 2, 90, 255 - c * 2), 10 * c + i).save(folder / "images" / name / f"{part}{i}.jpg")
                lines.append(f"{name}/{part}{i}.jpg\t{(c + i) % 2}")
        (folder / "meta" / f"verified_{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder
