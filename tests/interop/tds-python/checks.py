"""What all programs compare with."""


def same(found, wanted, what=""):
    assert found == wanted, f"{what}: {found!r:.400}, not {wanted!r:.400}"
