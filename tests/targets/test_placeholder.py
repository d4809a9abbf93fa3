from jissoku.targets.placeholders import fill, fill_text, placeholders

VALUES: dict[str, str | tuple[str, ...]] = {
    "port": "80",
    "listen": ("--port", "{port}"),
    "files": "/a folder",
}


def test_a_word_that_is_a_hole_becomes_several_words() -> None:
    assert fill(("run", "{listen}", "-v"), VALUES) == ("run", "--port", "80", "-v")


def test_a_hole_inside_a_text_is_joined_by_spaces() -> None:
    assert fill_text("listen {listen};", VALUES) == "listen --port 80;"


def test_a_value_with_spaces_stays_one_word() -> None:
    assert fill(("{files}",), VALUES) == ("/a folder",)


def test_what_is_no_hole_stays() -> None:
    text = 'http { server {\n} } {"a": 1} {unknown} {}'
    assert fill_text(text, VALUES) == text


def test_a_filled_value_is_not_read_again_as_a_template() -> None:
    assert fill(("{files}",), {"files": "{port}", "port": "80"}) == ("{port}",)


def test_holes_are_found() -> None:
    assert placeholders(("{port}", "a{files}b{port}", "{ no }")) == {"port", "files"}
