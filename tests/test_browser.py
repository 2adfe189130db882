"""The explorer page in a real browser: Debian's chromium without a window, opened from a file.

`make browser` installs it. Without it these tests are skipped, except in continuous integration
(CI is set), where they fail.
"""

import csv
import itertools
import json
import os
import shutil
import time
from typing import Any

import numpy as np
import pytest
from hooks import FUNCTIONS, over_points
from scipy import special
from test_explorer import untrained
from toy import Spiral

import lcpinn as lc
from benchmarks.shapes import FAMILIES
from lcpinn.explorer import trace
from lcpinn.explorer.page import _plotly, assemble, contents
from lcpinn.families import Burgers, Cylinder, Helmholtz
from lcpinn.network import MLP

pytestmark = pytest.mark.slow

FLAGS = (
    "--headless",
    "--window-size=1280,900",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AGREE = {"rtol": 0, "atol": 1e-10}  # between page and Python

SMALL = MLP(widths=(12, 12))


SOLUTIONS = {
    "curve": lambda: untrained(Helmholtz(1), SMALL),
    "space-time": lambda: untrained(Burgers(), SMALL),
    "field": lambda: untrained(Helmholtz(2), SMALL),
    "planes": lambda: untrained(Helmholtz(3), SMALL),
    "outputs": lambda: untrained(Spiral(), SMALL),
}
SETTINGS = {"curve": 5, "space-time": 0, "field": 0, "planes": 0, "outputs": 2}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """One browser for all tests, with its own profile."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if not (chromium and chromedriver):
        message = "chromium and chromedriver are not installed: run `make browser`"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    made.set_script_timeout(120)
    yield made
    made.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Solutions and their pages, each made when it is first asked for."""
    home, made = tmp_path_factory.mktemp("pages"), {}

    def get(name):
        if name not in made:
            solution = SOLUTIONS[name]()
            made[name] = solution, solution.explore(home / f"{name}.html", SETTINGS[name])
        return made[name]

    return get


class Page:
    """What a test does with a page: look, press keys, drag."""

    latest: "Page | None" = None  # what the browser shows

    def __init__(self, driver, solution, path):
        self.driver, self.solution, self.path = driver, solution, path
        Page.latest = self
        driver.get("about:blank")
        for kind in ("browser", "performance"):
            driver.get_log(kind)  # of what was open before
        driver.get(path.as_uri())

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def slider(self, label):
        return self.run(
            "return [...document.querySelectorAll('.slider')].find("
            "s => s.querySelector('label').textContent === arguments[0]).querySelector('.range')",
            label,
        )

    def box(self, label):
        return self.find(f"input[aria-label='{label}, exact value']")

    def drawn(self, figure, trace=0):
        """What Plotly shows, after the next frame."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "requestAnimationFrame(() => requestAnimationFrame(() => {"
            "  const {x, y, z, name} = document.querySelector("
            "    `#figure-${arguments[0]} .plot`).data[arguments[1]];"
            "  done({x, y, z, name}); }))",
            figure,
            trace,
        )

    def values(self):
        found = self.run("return window.lcpinn.values()")
        points = {name: np.array(v) for name, v in found["coordinates"].items()}
        return found, points

    def expected(self, found, points):
        """The solution's answer to what the page says it shows."""
        how = {}
        if found["weights"]:
            how = {"weights": found["weights"]}
        elif found["shots"]:
            how = {"shots": found["shots"]}
        value = self.solution(**points, **found["parameters"], **how)
        return value if isinstance(value, dict) else {self.solution.family.outputs[0]: value}

    def check(self):
        """Page and Python agree on the full grid; returns what the page shows."""
        found, points = self.values()
        for name, value in self.expected(found, points).items():
            np.testing.assert_allclose(found["outputs"][name], value, **AGREE)
        return found


@pytest.fixture
def page(driver, pages, request):
    return Page(driver, *pages(getattr(request, "param", "curve")))


@pytest.fixture(scope="module")
def opened(driver, pages, request):
    return Page(driver, *pages(request.param))


@pytest.fixture
def seen(driver, opened):
    """A page that tests look at and leave as it is: they share it, since opening takes a second."""
    return opened if Page.latest is opened else Page(driver, opened.solution, opened.path)


looks_at_every_page = pytest.mark.parametrize(
    "opened", tuple(SOLUTIONS), indirect=True, scope="module"
)


def every(*names):
    return pytest.mark.parametrize("page", names or tuple(SOLUTIONS), indirect=True)


# -- All pages -----------------------------------------------------------------------------------


@looks_at_every_page
def test_the_network_in_the_page_agrees_with_python(seen):
    found = seen.check()
    family = seen.solution.family
    points = np.stack([np.array(v) for v in found["coordinates"].values()], axis=-1)
    truth = family.truth(points, np.array(list(found["parameters"].values())))
    shown = np.stack([found["truth"][name] for name in family.outputs], axis=-1)
    np.testing.assert_allclose(shown, truth, **AGREE)
    assert len(points) == np.prod(found["shape"]) > 400


def eventually(holds):
    """Whether it comes true, soon."""
    deadline = time.monotonic() + 60
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@looks_at_every_page
def test_nothing_is_fetched_and_nothing_complains(driver, seen):
    seen.values()
    events = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    failed = [e for e in events if e["method"] == "Network.loadingFailed"]
    assert asked
    assert all(url.startswith(("file://", "data:", "blob:")) for url in asked)
    assert not failed
    assert driver.get_log("browser") == []


@looks_at_every_page
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_width(driver, seen, width):
    size = {"width": width, "height": 850, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert seen.run("return document.documentElement.scrollWidth") <= width
        # Plotly follows the window's width a moment later.
        inside = (
            "return [...document.querySelectorAll('.plot svg.main-svg, input, button, dd')]"
            ".filter(e => e.getClientRects().length).every(e => {"
            "const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth + 1})"
        )
        assert eventually(lambda: seen.run(inside))
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@looks_at_every_page
def test_every_input_has_a_name_and_shows_its_focus(seen):
    unnamed = seen.run(
        "return [...document.querySelectorAll('input, select, button')].filter(e => "
        "!(e.labels && e.labels.length) && !e.ariaLabel && !e.textContent).length"
    )
    assert unnamed == 0
    focused = []
    for _ in range(3):
        seen.find("body").send_keys("\ue004")  # Tab
        focused.append(
            seen.run(
                "const e = document.activeElement; const shown = e.matches('.segments input') ?"
                " e.nextElementSibling : e;"
                "return [e.tagName, getComputedStyle(shown).outlineStyle]"
            )
        )
    assert all(tag in ("INPUT", "SELECT", "BUTTON") for tag, _ in focused)
    assert all(style == "solid" for _, style in focused)


# -- Sliders -------------------------------------------------------------------------------------


def test_the_keyboard_moves_a_coefficient(page):
    from selenium.webdriver.common.keys import Keys

    before = page.check()["parameters"]["k"]
    page.slider("k").send_keys(Keys.ARROW_RIGHT * 3)
    after = page.check()["parameters"]["k"]
    assert after == pytest.approx(before + 0.06)
    page.slider("k").send_keys(Keys.HOME)
    assert page.check()["parameters"]["k"] == 1.0
    page.slider("k").send_keys(Keys.END)
    assert page.check()["parameters"]["k"] == 10.0


def test_the_picture_follows_the_mouse_before_it_lets_go(driver, page):
    def mouse(kind, across):
        where = page.slider("k").rect
        at = {"x": where["x"] + where["width"] / 2 + across, "y": where["y"] + where["height"] / 2}
        how = {"type": kind, **at, "button": "left", "buttons": 1, "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", how)

    mouse("mousePressed", 0)
    mouse("mouseMoved", 60)
    held = page.run("return window.lcpinn.state().parameters.k")
    curve = page.drawn("solution")
    mouse("mouseMoved", -30)
    mouse("mouseReleased", -30)
    assert held > 6
    value = page.solution(x=np.array(curve["x"]), k=held)
    np.testing.assert_allclose(curve["y"], value, **AGREE)
    assert page.check()["parameters"]["k"] < 5.5


def test_an_exact_value_can_be_typed_and_stays_in_range(page):
    from selenium.webdriver.common.keys import Keys

    for typed, kept in (("3.14159", 3.14159), ("99", 10.0)):
        box = page.box("k")
        box.send_keys(Keys.CONTROL + "a")
        box.send_keys(typed + Keys.TAB)
        assert page.check()["parameters"]["k"] == kept


def test_the_error_over_lambda_marks_where_we_are(page):
    page.run("window.lcpinn.set({k: 4.375})")
    truth, estimated, here = (page.drawn("certificate", i) for i in range(3))
    report = page.solution.certificate(5)["settings"]
    assert [truth["name"], estimated["name"], here["name"]] == ["true", "estimated", "here"]
    np.testing.assert_allclose(estimated["x"], [row["at"]["k"] for row in report])
    np.testing.assert_allclose(estimated["y"], [row["error"] for row in report], rtol=1e-12)
    assert here["x"] == [4.375]  # half-way between 3.25 and 5.5
    middle = np.sqrt(estimated["y"][1] * estimated["y"][2])
    np.testing.assert_allclose(here["y"], [middle], rtol=1e-9)
    assert "Estimated error" in page.find("#readouts").text


@every("outputs")
def test_with_several_coefficients_the_nearest_setting_is_said(page):
    page.run("window.lcpinn.set({a: 2.9, b: 0.2})")
    assert page.drawn("certificate")["x"] == [0.05, 1.0]  # along b, moved last
    words = page.find("#figure-certificate small").text.replace("\xa0", " ")
    assert words.startswith("at the nearest computed a = 3")
    page.run("window.lcpinn.set({a: 1.2})")
    assert page.drawn("certificate")["x"] == [1.0, 3.0]
    assert "b = 0.05" in page.find("#figure-certificate small").text.replace("\xa0", " ")


# -- Loss weights, times, planes, outputs --------------------------------------------------------


@every("space-time")
def test_one_weighting_or_the_mean(page):
    from selenium.webdriver.common.keys import Keys

    assert page.check()["shots"] == 16
    page.find("input[value=one]").click()
    page.slider("boundary").send_keys(Keys.ARROW_RIGHT * 30)
    weights = page.check()["weights"]
    assert weights["boundary"] == pytest.approx(0.55)
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    assert weights["initial"] == pytest.approx(0.15)
    page.slider("boundary").send_keys(Keys.END)
    page.slider("boundary").send_keys(Keys.ARROW_LEFT)
    assert page.check()["weights"]["data"] == pytest.approx(0.01 / 3)
    page.find("input[value=mean]").click()
    assert page.check()["weights"] is None


@every("space-time")
def test_a_slice_in_time(page):
    from selenium.webdriver.common.keys import Keys

    page.slider("t").send_keys(Keys.ARROW_RIGHT * 8)
    mine, truth = (page.drawn("slice", i) for i in range(2))
    moment = page.run("return window.lcpinn.state().time")
    assert moment == pytest.approx(0.6)
    x = np.array(mine["x"])
    np.testing.assert_allclose(mine["y"], page.solution(t=moment, x=x, shots=16), **AGREE)
    np.testing.assert_allclose(truth["y"], Burgers().reference(np.full_like(x, moment), x), **AGREE)
    cursor = page.run("return document.querySelector('#figure-image .plot').layout.shapes[0].x0")
    assert cursor == moment


@every("space-time")
def test_what_takes_long_is_coarse_first_and_full_soon(page):
    page.find("input[value=one]").click()
    coarse = page.run(
        "document.querySelector('input[value=mean]').click();"
        "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
        " done(document.querySelector('#figure-image .plot').data[0].z.length))))"
    )
    assert coarse < 201
    assert eventually(lambda: len(page.drawn("image")["z"]) == 201)
    full = np.array(page.drawn("image")["z"])
    t, x = np.linspace(0, 1, 81), np.linspace(-1, 1, 201)
    np.testing.assert_allclose(full, page.solution(t=t, x=x[:, None], shots=16), **AGREE)


@every("space-time")
def test_the_reference_and_the_error_can_be_shown(page):
    page.check()
    t, x = np.linspace(0, 1, 81), np.linspace(-1, 1, 201)
    points = np.stack(np.meshgrid(t, x), axis=-1).reshape(-1, 2)
    truth = Burgers().truth(points, np.zeros(0)).reshape(201, 81)
    page.find("input[value=reference]").click()
    np.testing.assert_allclose(page.drawn("image")["z"], truth, **AGREE)
    page.find("input[value=error]").click()
    error = np.abs(page.solution(t=t, x=x[:, None], shots=16) - truth)
    shown = np.array(page.drawn("image")["z"])
    seen = error > 2e-6 * error.max()
    np.testing.assert_allclose(shown[seen], np.log10(error[seen]), atol=1e-4)


@every("planes")
def test_planes_through_three_dimensions(page):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    page.slider("z").send_keys(Keys.PAGE_UP)
    found = page.check()
    assert set(found["coordinates"]["z"]) == {0.6}
    Select(page.find("select[aria-label=plane]")).select_by_visible_text("x, z")
    page.slider("y").send_keys(Keys.HOME)
    page.run("window.lcpinn.set({k: 2})")
    found = page.check()
    assert set(found["coordinates"]["y"]) == {0.0}
    assert len(set(found["coordinates"]["z"])) == 81


@every("outputs")
def test_an_output_can_be_chosen(page):
    from selenium.webdriver.support.select import Select

    first = np.array(page.drawn("solution")["y"])
    Select(page.find("select[aria-label=output]")).select_by_visible_text("v")
    found = page.check()
    second = np.array(page.drawn("solution")["y"])
    np.testing.assert_allclose(second, found["outputs"]["v"], **AGREE)
    assert np.abs(first - second).max() > 0.01
    assert "error of v" in page.find("#readouts").text


# -- Out of the page -----------------------------------------------------------------------------


@every("outputs")
def test_the_download_is_what_is_shown(driver, page, tmp_path):
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    page.run("window.lcpinn.set({a: 2, b: 0.5})")
    page.find("#download").click()
    file = tmp_path / "spiral-a=2-b=0.5.csv"
    assert eventually(file.exists)
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    assert list(column) == ["t", "a", "b", "u", "v", "u_exact", "v_exact"]
    named = {name: column[name] for name in ("t", "a", "b")}
    for name, value in page.solution(**named).items():
        np.testing.assert_allclose(column[name], value, **AGREE)
    exact = page.solution.family.truth(column["t"][:, None], np.array([2.0, 0.5]))
    np.testing.assert_allclose(column["v_exact"], exact[:, 1], **AGREE)


def test_dark_where_the_system_is(driver, page):
    colours = {}
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        page.drawn("solution")
        colours[scheme] = page.run(
            "return [getComputedStyle(document.body).backgroundColor,"
            "document.querySelector('#figure-solution .plot').layout.font.color]"
        )
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours["light"] == ["rgb(255, 255, 255)", "#1b1f24"]
    assert colours["dark"] == ["rgb(20, 23, 26)", "#e6e9ec"]


def test_a_warning_is_in_the_page(driver, tmp_path):
    with pytest.warns(RuntimeWarning, match="billion"):
        path = untrained(Burgers(), MLP(widths=(64, 64))).explore(tmp_path / "page.html", 0)
    page = Page(driver, None, path)
    assert page.find("#notes").text.startswith("A full picture takes about")


ATTACK = "window.attacked = true"
HOSTILE = (
    f"</script><script>{ATTACK}</script>",
    f'"><img src=x onerror="{ATTACK}">',
    f"');{ATTACK};('",
    f"<a href='javascript:{ATTACK}' onmouseover='{ATTACK}'>u</a>",
    "\u202emorf thgir ot tfel, \u2066%{x} &lt;b&gt;",
    "__proto__",
)


def hostile(solution, settings) -> dict[str, Any]:
    """What a page is made of, with names and words that try to be more than text."""
    names, data = itertools.cycle(HOSTILE), contents(solution, settings)
    for axis in (*data["coordinates"], *data["parameters"]):
        axis["name"] = next(names) if axis["name"] != "t" else "t"  # t says what is time
    data["outputs"] = [next(names) for _ in data["outputs"]]
    if data["weights"]:
        data["weights"]["names"] = [next(names) for _ in data["weights"]["names"]]
    data |= {"name": HOSTILE[0], "equation": " ".join(HOSTILE), "notes": list(HOSTILE)}
    return data | {"facts": dict(zip(HOSTILE, HOSTILE, strict=True))}


@pytest.mark.parametrize("name", ["outputs", "space-time", "planes"])
def test_names_are_text_and_nothing_else(driver, tmp_path, name):
    data = hostile(SOLUTIONS[name](), SETTINGS[name])
    path = tmp_path / "page.html"
    path.write_text(assemble(data, _plotly()), encoding="utf-8")
    page = Page(driver, None, path)
    assert page.find("h1").text == data["name"]
    assert page.find("#equation").get_attribute("textContent") == data["equation"]
    labels = page.run(
        "return [...document.querySelectorAll('.slider label')].map(l => l.textContent)"
    )
    assert {axis["name"] for axis in data["parameters"]} <= set(labels)
    figure = {"outputs": "solution"}.get(name, "image")
    titles = page.run(
        "return [...document.querySelectorAll(`#figure-${arguments[0]} .xtitle, "
        "#figure-${arguments[0]} .ytitle`)].map(t => t.textContent)",
        figure,
    )
    shown = {axis["name"] for axis in data["coordinates"]} | set(data["outputs"])
    assert set(titles) <= shown
    assert len(titles) == 2
    x, y = page.run(
        "arguments[0].scrollIntoView({block: 'center'}); const r = "
        "arguments[0].getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]",
        page.find(f"#figure-{figure} .plot"),
    )
    for step in range(2):  # a mouse that has just arrived has not moved yet
        moved = {"type": "mouseMoved", "x": x + 3 * step, "y": y}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", moved)
    hovered = "return document.querySelectorAll('.hoverlayer text').length"
    assert eventually(lambda: page.run(hovered))
    rows = list(csv.reader(page.run("return window.lcpinn.csv()").splitlines()))
    assert len({len(row) for row in rows}) == 1
    assert {axis["name"] for axis in data["coordinates"]} <= set(rows[0])
    assert page.run("return window.attacked") is None
    inert = "return document.querySelectorAll('img, iframe, svg a, script[src]').length"
    assert page.run(inert) == 0
    assert page.run("return document.scripts.length") == 3
    assert driver.get_log("browser") == []


# -- The interpreter -----------------------------------------------------------------------------


def test_hooks_in_jax_numpy_run_in_the_page(page):
    points = np.linspace(0.013, 0.987, 70)
    script = (
        "const network = window.lcpinn.run.load(arguments[0]);"
        "network.set({parameters: [arguments[2]], weights: []});"
        "const points = Float64Array.from(arguments[1]), out = new Float64Array(points.length);"
        "network.fill(points, 0, points.length, out); return [...out]"
    )
    for name, function in FUNCTIONS.items():
        program = trace(over_points(function), points=32, coordinates=1, parameters=1)
        for k in (0.4, 1.7):
            mine = page.run(script, program.to_json(), points.tolist(), k)
            expected = program(points[:, None], [k])[:, 0]
            np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-13, err_msg=name)


def test_error_functions_to_the_last_digits(page):
    x = np.concatenate([np.linspace(-7, 7, 2001), [1e-9, -1e-300, 2 - 1e-15, 2.0, 26.0]])
    script = "return arguments[1].map(x => window.lcpinn.run[arguments[0]](x))"
    np.testing.assert_allclose(page.run(script, "erf", x.tolist()), special.erf(x), rtol=1e-14)
    np.testing.assert_allclose(page.run(script, "erfc", x.tolist()), special.erfc(x), rtol=2e-13)


def test_the_page_itself_names_a_wrong_coefficient(page):
    from selenium.common.exceptions import JavascriptException

    with pytest.raises(JavascriptException, match="no such coefficient as q"):
        page.run("window.lcpinn.set({q: 1})")
    assert isinstance(page.solution, lc.Solution)


def test_a_coefficient_that_was_held_is_said(driver, tmp_path):
    solution = untrained(Helmholtz(1).at(k=3.25), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "page.html", 0))
    assert page.check()["parameters"] == {"k": 3.25}
    assert "k = 3.25" in page.find("#controls").text.replace("\xa0", " ")
    assert page.run("return document.querySelectorAll('.slider').length") == 0


# -- Corrected values ----------------------------------------------------------------------------


def pick(page, label, place):
    """Choose an entry of a menu."""
    page.run(
        "const menu = document.querySelector(`select[aria-label='${arguments[0]}']`);"
        "menu.value = arguments[1]; menu.dispatchEvent(new Event('change'))",
        label,
        str(place),
    )


def test_corrected_values_are_shown_where_they_were_computed(driver, tmp_path):
    solution = untrained(Helmholtz(1), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "page.html", 0, corrected=4))
    assert page.values()[0]["corrected"] is None  # the slider begins at 5.5
    assert "u_corrected" not in page.run("return window.lcpinn.csv()").splitlines()[0]
    pick(page, "corrected at", 2)
    found, points = page.values()
    assert found["parameters"] == {"k": 4.0}
    expected = solution.corrected(x=points["x"], k=4.0)
    np.testing.assert_allclose(found["corrected"]["u"], expected, **AGREE)
    shown = page.drawn("solution", 2)
    assert shown["name"] == "corrected"
    np.testing.assert_allclose(shown["y"], expected, **AGREE)
    assert page.drawn("error", 1)["name"] == "corrected"
    assert page.run("return window.lcpinn.csv()").startswith("x,k,u,u_exact,u_corrected\n")
    assert "Corrected" in page.find("#readouts").text
    page.run("window.lcpinn.set({k: 4.1})")
    assert page.values()[0]["corrected"] is None
    assert page.run("return document.querySelector('[aria-label=\"corrected at\"]').value") == "0"
    assert driver.get_log("browser") == []


class InTime(lc.Family):
    """Three coordinates, the first of them a time, and a coefficient."""

    domain = lc.Box(t=(0.0, 1.0), x=(0.0, 1.0), y=(-1.0, 2.0))
    parameters = lc.Uniform(k=(1.0, 2.0))

    @lc.interior
    def equation(self, u_t, u_xx, u_yy, k):
        return u_t - k * (u_xx + u_yy)


def test_corrected_values_belong_to_one_plane(driver, tmp_path, monkeypatch):
    """Whatever they are: here those of the network."""
    monkeypatch.setattr(lc.Solution, "corrected", lc.Solution.__call__)
    solution = untrained(InTime(), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "page.html", 0, corrected=2))
    pick(page, "corrected at", 2)
    found, _ = page.values()
    assert found["parameters"] == {"k": 2.0}
    np.testing.assert_allclose(found["corrected"]["u"], found["outputs"]["u"], **AGREE)
    assert "in the plane at t = 0.5" in page.find("#controls").text.replace("\xa0", " ")
    pick(page, "plane", 1)
    assert page.values()[0]["corrected"] is None
    pick(page, "plane", 0)
    assert page.values()[0]["corrected"] is not None
    page.slider("t").send_keys("\ue010")
    assert page.values()[0]["corrected"] is None


def test_corrected_values_of_a_shape_take_the_place_of_the_networks(driver, tmp_path):
    solution = untrained(Cylinder(), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "hole.html", 0, corrected=1))
    page.run("document.querySelector('input[value=corrected]').click()")
    found, points = page.values()
    expected = solution.corrected(**points, **found["parameters"])
    shown = np.array(found["corrected"]["u"], float)
    np.testing.assert_array_equal(np.isnan(shown), np.isnan(expected))
    np.testing.assert_allclose(shown, expected, **AGREE)
    picture = np.array(page.drawn("image")["z"], float)
    inside = ~np.isnan(expected.reshape(found["shape"]).T)
    np.testing.assert_allclose(picture[inside], expected.reshape(found["shape"]).T[inside], **AGREE)
    assert "of the corrected solution" in page.find("#figure-errors").text
    page.slider("a").send_keys("\ue010")  # to the end of its range, where there is no correction
    page.drawn("image")
    assert "of the network: no correction here" in page.find("#figure-image").text
    assert driver.get_log("browser") == []


# -- Shapes --------------------------------------------------------------------------------------


def test_the_hole_grows_with_its_slider(driver, tmp_path):
    """Values agree with Python's, nan outside included; the outline has the slider's radius."""
    from selenium.webdriver.common.keys import Keys

    solution = untrained(Cylinder(), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "hole.html", 0))
    outside, radius = [], []
    for key in (Keys.HOME, Keys.END):
        page.slider("a").send_keys(key)
        found, points = page.values()
        shown = np.array(found["outputs"]["u"], float)
        expected = page.expected(found, points)["u"]
        np.testing.assert_allclose(shown, expected, **AGREE)
        outside.append(int(np.isnan(shown).sum()))
        outline = page.drawn("image", 1)
        level = np.array(outline["z"], float)
        radius.append(-level[level.shape[0] // 2, level.shape[1] // 2])
        hidden = np.array(page.drawn("image")["z"], float)
        assert 0 < np.isnan(hidden).sum() < outside[-1]  # continued by a cell, below the cover
    assert 0 < outside[0] < outside[1]
    np.testing.assert_allclose(np.abs(radius), [0.3, 0.9], atol=1e-6)
    assert driver.get_log("browser") == []


def test_a_shape_is_there_at_the_ends_of_time(driver, tmp_path):
    """The level function is zero all over the inside at t = 0: the outline is drawn further in."""
    from selenium.webdriver.common.keys import Keys

    solution = untrained(FAMILIES["washer"](), SMALL)
    page = Page(driver, solution, solution.explore(tmp_path / "washer.html", 0))
    for key in (Keys.HOME, Keys.END):
        page.slider("t").send_keys(key)
        inside = np.array(page.drawn("image", 1)["z"], float) < 0
        assert 0.5 < inside.mean() < 0.8  # a ring takes π (1 - 0.4²) / 4 of its square
        shown = np.isfinite(np.array(page.drawn("image")["z"], float))
        assert shown[inside].all()
