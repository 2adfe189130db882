"""Files: written whole or not at all, and refused when a byte of them is wrong."""

import json
import resource
import signal
import struct
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import lcpinn as lc
from lcpinn.families import FAMILIES
from lcpinn.files import (
    flatten,
    read_arrays,
    read_json,
    unflatten,
    write_arrays,
    write_atomically,
    write_json,
)
from lcpinn.network import MLP, Concat, DeepONet, FiLM
from lcpinn.optimiser import GainRatio, GaussNewton, ModelDriven, NonMonotone, Restarts
from lcpinn.rows import Problem
from lcpinn.rundir import RunDirectory
from lcpinn.sampling import Sampling
from lcpinn.saved import write_model
from lcpinn.spec import describe, fingerprint, from_plain, to_plain
from lcpinn.weighting import Fixed

TREE = {
    "layers": [{"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3)}],
    "step": np.int32(7),
    "empty": np.zeros((0, 2)),
}
HEADER = {"rate": 1e-3, "names": ["x", "é"], "nested": {"a": None, "b": True}}


@contextmanager
def nearly_full(num_bytes):
    """No file can grow beyond this size: writing fails as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


# -- Writing -------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    write_atomically(path, b"old")
    with nearly_full(4096), pytest.raises(lc.LcpinnError, match="File too large") as error:
        write_atomically(path, bytes(8192))
    assert str(error.value).startswith(f"could not write {path}: ")
    assert str(error.value).endswith("; the file that was there is intact")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_failed_first_write_claims_no_old_file(tmp_path):
    with nearly_full(16), pytest.raises(lc.LcpinnError) as error:
        write_atomically(tmp_path / "model", bytes(64))
    assert "intact" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_be_written_where_there_is_no_directory(tmp_path):
    with pytest.raises(lc.LcpinnError, match=r"could not write .*: No such file or directory"):
        write_atomically(tmp_path / "nowhere" / "model", b"")


def test_a_file_does_not_replace_a_directory(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(lc.LcpinnError, match="could not write"):
        write_atomically(tmp_path / "model", b"")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


# -- Arrays --------------------------------------------------------------------------------------


def contents(arrays):
    return {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some.safetensors"
    write_arrays(path, "model", HEADER, TREE)
    return path


def test_arrays_come_back_bit_for_bit(file):
    header, arrays = read_arrays(file, "model")
    assert {k: header[k] for k in HEADER} == HEADER
    assert set(arrays) == {"layers.0.w", "layers.0.b", "step", "empty"}
    assert contents(arrays) == contents(flatten(TREE))


def test_a_tree_comes_back_in_its_shape():
    like = {"a": [jnp.ones(2), jnp.zeros((), jnp.int32)], "b": ()}
    back = unflatten(flatten(like), like, "it")
    assert back["b"] == ()
    np.testing.assert_array_equal(back["a"][0], np.ones(2))
    assert back["a"][1].shape == ()
    with pytest.raises(lc.LcpinnError, match="it holds other arrays than expected"):
        unflatten({"a.0": np.ones(2)}, like, "it")
    with pytest.raises(lc.LcpinnError, match=r"it: a\.0 has shape \(3,\), not \(2,\)"):
        unflatten({"a.0": np.ones(3), "a.1": np.zeros(())}, like, "it")


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_noticed(file):
    header, arrays = read_arrays(file, "model")
    content = file.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        try:
            other, values = read_arrays(file, "model")
        except lc.LcpinnError as error:
            assert str(file) in str(error)  # noqa: PT017
        else:  # it may still mean the same, as 1e-3 and 1E-3 do
            assert other == header, position
            assert contents(values) == contents(arrays), position


def test_a_truncated_file_is_noticed(file):
    content = file.read_bytes()
    for length in (0, 1, 7, 8, 40, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(lc.LcpinnError, match="truncated, damaged or no model file"):
            read_arrays(file, "model")


def test_other_files_are_refused(file, tmp_path):
    with pytest.raises(lc.LcpinnError, match="there is no file"):
        read_arrays(tmp_path / "absent", "model")
    with pytest.raises(lc.LcpinnError, match="there is no file"):
        read_arrays(tmp_path, "model")
    with pytest.raises(lc.LcpinnError, match="but no checkpoint of lcpinn"):
        read_arrays(file, "checkpoint")
    foreign = tmp_path / "foreign.safetensors"
    for metadata in (None, {"format": "pt"}, {"lcpinn": "[1, 2]"}, {"lcpinn": "{}"}):
        safetensors.numpy.save_file({"w": np.ones(3)}, foreign, metadata=metadata)
        with pytest.raises(lc.LcpinnError, match="is a safetensors file, but no model of lcpinn"):
            read_arrays(foreign, "model")
    foreign.write_text("# not even that\n")
    with pytest.raises(lc.LcpinnError, match="no model file"):
        read_arrays(foreign, "model")


def test_a_later_format_is_refused(file, monkeypatch):
    monkeypatch.setattr("lcpinn.files.FORMAT", 2)
    write_arrays(file, "model", HEADER, TREE)
    monkeypatch.undo()
    with pytest.raises(lc.LcpinnError, match="has format 2; this version reads 1"):
        read_arrays(file, "model")


def test_a_file_is_plain_safetensors(file):
    """Anyone can open it: eight bytes of length, a JSON header, the arrays."""
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    assert json.loads(header["__metadata__"]["lcpinn"])["kind"] == "model"
    assert set(safetensors.numpy.load_file(file)) == set(flatten(TREE))


DEEP = 100_000


def test_json_deeper_than_the_stack_is_one_line(file, tmp_path):
    nested = "[" * DEEP + "]" * DEEP
    safetensors.numpy.save_file({"w": np.ones(3)}, file, metadata={"lcpinn": nested})
    with pytest.raises(lc.LcpinnError, match="damaged or no model file") as caught:
        read_arrays(file, "model")
    assert "\n" not in str(caught.value)
    (tmp_path / "run.json").write_text(nested)
    with pytest.raises(lc.LcpinnError, match="is damaged: it is not readable JSON"):
        read_json(tmp_path / "run.json")


@pytest.mark.parametrize("spoil", [
    {"protocol": 3}, {"protocol": {"type": "MLP"}}, {"protocol": None}, {"run": []},
    {"family": []}, {"network": 7}, {"network": {"type": "Fixed", "weights": {}}},
    {"at": "k"}, {"dtype": 8, "network": {"type": "MLP", "widths": "abc"}}, {"weighting": []},
], ids=str)  # fmt: skip
def test_a_forged_header_is_one_line(tmp_path, spoil):
    """With a checksum that matches, and values of other kinds than any model has."""
    family = FAMILIES["helmholtz-1d"]()
    made = lc.protocol.smoke(family)
    problem = Problem(made.view(family), made.network, jnp.float32)
    params = problem.init(jax.random.PRNGKey(0))
    path = write_model(tmp_path / "model.safetensors", made.view(family), made, params, {})
    assert lc.load(path).protocol == made
    header, arrays = read_arrays(path, "model")
    place = header if set(spoil) <= set(header) else header["protocol"]
    write_arrays(path, "model", header | place | spoil if place is header else
                 header | {"protocol": place | spoil}, arrays)  # fmt: skip
    with pytest.raises(lc.LcpinnError) as caught:
        lc.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_is_checked_too(tmp_path):
    path = tmp_path / "run.json"
    write_json(path, HEADER)
    assert read_json(path) == HEADER
    path.write_text(path.read_text()[:-9])
    with pytest.raises(lc.LcpinnError, match="is damaged"):
        read_json(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(lc.LcpinnError, match="is damaged"):
        read_json(path)
    with pytest.raises(lc.LcpinnError, match="there is no"):
        read_json(tmp_path / "absent.json")


# -- Specs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lc.protocol.paper, lc.protocol.smoke])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_protocol_travels_as_json(name, make):
    protocol = make(FAMILIES[name]())
    back = from_plain(json.loads(json.dumps(to_plain(protocol))))
    assert back == protocol
    assert str(back) == str(protocol)
    assert fingerprint(back) == fingerprint(protocol)
    assert type(back.phases) is tuple
    assert type(back.network.widths) is tuple


def test_a_fingerprint_tells_values_apart():
    values = [MLP(), MLP(widths=(64,)), MLP(parameters=FiLM(degree=3)), MLP(weights=FiLM())]
    assert len({fingerprint(v) for v in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_only_registered_types_come_out_of_a_file():
    for name in ("os.system", "Popen", "Path", "NoSuchThing"):
        with pytest.raises(lc.LcpinnError, match=f"knows no '{name}'"):
            from_plain({"type": name, "args": ["true"]})
    with pytest.raises(lc.LcpinnError, match="knows no"):
        from_plain({"type": "MLP", "parameters": {"type": "Popen"}})
    with pytest.raises(lc.LcpinnError, match="reads FiLM differently"):
        from_plain({"type": "FiLM", "fancy": 1})


def test_a_description_names_what_differs_from_the_default():
    assert describe(FiLM()) == "FiLM()"
    assert describe(MLP(widths=(8,), parameters=Concat())) == "MLP(widths=(8), parameters=Concat())"
    assert describe(Sampling(rule="gauss")) == "Sampling(rule='gauss')"


# -- What older versions wrote -------------------------------------------------------------------

# `fast` for helmholtz-1d on a CPU, as version 0.1 wrote it before names were changed.
OLDER = """{"type": "Protocol", "name": "fast", "network": {"type": "MLP", "widths": [20, 20],
"activation": "sine", "parameters": {"type": "FiLM", "hidden": 0, "degree": 5}, "weights": {"type":
"Concat", "gain": 0.0}, "reach": 8.0}, "weighting": {"type": "Fixed", "weights": {}}, "phases":
[{"type": "Restarts", "phase": {"type": "GaussNewton", "rows": {"type": "Sampling", "interior":
2600, "face": 200, "num_lambda": 1, "rule": "collocation", "seed": 0, "grid": 0}, "steps": 3000,
"rounds": 20, "redraw": 0.5, "overfit": 2.0, "solver": "qr", "ladder": 13, "threshold": 0.1,
"stride": 0.03, "slack": 0.0, "roam": true, "corrections": 0, "patience": 8, "tolerance": 0.02,
"seconds": 50.0, "block": 5, "early": 0.0}, "starts": 1, "trial": 30, "most": 12, "gain": 1.0,
"doubt": 0.01}], "sampling": null, "quadrature": {"type": "Sampling", "interior": 1024, "face":
100, "num_lambda": 4, "rule": "gauss", "seed": 0, "grid": 0}, "held_out": {"type": "Sampling",
"interior": 4096, "face": 256, "num_lambda": 1, "rule": "collocation", "seed": 1009, "grid": 0},
"dtype": "float64", "plain": false, "weighted": true, "at": {}}"""


def test_protocols_of_older_versions_come_back():
    made = from_plain(json.loads(OLDER))
    phase = GaussNewton(
        sampling=Sampling(2600, 200, 1, "collocation"),
        acceptance=ModelDriven(),
        steps=3000,
        solver="qr",
        dampings=13,
        radius=0.03,
        patience=8,
        tolerance=0.02,
        seconds=50.0,
    )
    assert made.phases == (Restarts(phase, 1, decrease=1.0),)
    assert made.network.frequency_scale == 8.0
    assert from_plain(json.loads(json.dumps(to_plain(made)))) == made


@pytest.mark.parametrize(
    ("fields", "acceptance"),
    [
        ({}, GainRatio()),
        ({"threshold": 0.3, "corrections": 1, "early": 0.5}, GainRatio(0.3, 1)),
        ({"slack": 10.0, "corrections": 0}, NonMonotone(11.0, corrections=0)),
        ({"slack": 10.0, "roam": True}, ModelDriven()),
    ],
    ids=["defaults", "gain ratio", "slack", "roam"],
)
def test_acceptance_was_several_fields(fields, acceptance):
    older = {"type": "GaussNewton", "redraw": 0.25, **fields}
    assert from_plain(older) == GaussNewton(acceptance=acceptance, resample=0.25)
    assert from_plain({"type": "DeepONet", "reach": 3.0}) == DeepONet(frequency_scale=3.0)


def test_a_run_of_an_older_version_is_known_and_its_checkpoint_is_not(tmp_path):
    protocol = from_plain(json.loads(OLDER))
    now = {"family": {"name": "f"}, "protocol": to_plain(protocol), "seed": 0}
    older = {**now, "protocol": json.loads(OLDER)}
    RunDirectory(tmp_path, older, every=1.0).open(resume=False, overwrite=False)
    again = RunDirectory(tmp_path, now, every=1.0)
    again.open(resume=True, overwrite=False)
    assert again.existed
    RunDirectory(tmp_path, older, every=1.0).save({}, {"step": np.zeros(())})
    with pytest.raises(lc.LcpinnError, match="was written by another version of lcpinn: start aga"):
        again.restore()
    again.close()
    with pytest.raises(lc.LcpinnError, match="holds another run: it differs in its seed"):
        RunDirectory(tmp_path, now | {"seed": 1}, every=1.0).open(resume=True, overwrite=False)


def test_a_term_may_be_called_type():
    """Weights are a mapping of the user's own names, whatever a spec's keys are."""
    weighting = Fixed({"type": 3.0, "start": 2.0})
    plain = json.loads(json.dumps(to_plain(weighting)))
    assert from_plain(plain) == weighting
    assert list(from_plain(plain).weights) == ["type", "start"]
