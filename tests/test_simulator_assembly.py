"""Reading assembly text, refusing what is not in the table, and building the core."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import simulator_kernels as kernels
from simulator_kernels import text

from inductor_flydsl import folders, simulator
from inductor_flydsl.simulator import assembly, build, isa, program


def test_facts_come_from_the_metadata() -> None:
    args = [(0, 8, "global_buffer"), (8, 16, "by_value"), (24, 4, "by_value"), (32, 4, "hidden_block_count_x")]
    source = text(
        "s_nop 0", name="k7", args=args, kernarg_bytes=48, lds_bytes=4096, scratch_bytes=32, max_workgroup_size=256
    )
    facts = simulator.kernel_facts(source)
    assert facts.name == "k7"
    assert (facts.vgprs, facts.agprs, facts.sgprs, facts.vgpr_spills, facts.sgpr_spills) == (64, 0, 33, 0, 0)
    assert (facts.lds_bytes, facts.scratch_bytes, facts.kernarg_bytes, facts.max_workgroup_size) == (4096, 32, 48, 256)
    assert [(a.offset, a.size, a.value_kind) for a in facts.args] == args
    assert [a.hidden for a in facts.args] == [False, False, False, True]
    assert facts.instructions == 2


def test_lines_keep_their_numbers_without_comments_and_directives() -> None:
    source = text("\t.p2align 2\n\ts_nop 0   ; why\n\n;;#ASMSTART\n.LBB0_1:  ; %loop\n\ts_nop 1 // x\n.LBB0_2: s_nop 2")
    kernel = assembly.parse(source)
    listed = source.split("\n")
    assert [line.text for line in kernel.lines] == ["s_nop 0", "s_nop 1", "s_nop 2", "s_endpgm"]
    assert all(line.text in listed[line.number - 1] for line in kernel.lines)
    assert kernel.labels == {".LBB0_1": 1, ".LBB0_2": 2}


def test_one_of_several_kernels_is_named() -> None:
    first, second = text("s_nop 0", name="first"), text("s_nop 0\ns_nop 0", name="second")
    # One metadata block describes all kernels of a file.
    entry = second[second.index("  - .agpr_count") : second.index("amdhsa.target")]
    both = first.replace("amdhsa.target", entry + "amdhsa.target") + second[: second.index("\t.amdgpu_metadata")]
    assert simulator.kernel_facts(both, "second").instructions == 3
    assert simulator.kernel_facts(both, "first").instructions == 2
    with pytest.raises(simulator.SimulatorError, match="several kernels.*first, second"):
        simulator.kernel_facts(both)
    with pytest.raises(simulator.SimulatorError, match="no kernel 'third'; it holds first, second"):
        simulator.kernel_facts(both, "third")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "no .amdhsa_kernel directive"),
        (text("s_nop 0").replace("\t.amdgpu_metadata", ""), "no .amdgpu_metadata block"),
        (text("s_nop 0").replace("probe:", "other:"), "no label probe:"),
        (text("s_nop 0").replace("    .vgpr_count:     64\n", ""), "no .vgpr_count"),
        (text("s_nop 0").replace(".name:           probe", ".name:           x"), "does not describe kernel probe"),
        (text("s_nop 0", directives={"user_sgpr_count": 4}), "user_sgpr_count 4, but its directives enable 2"),
        (text("s_nop 0", directives={"float_denorm_mode_32": 0}), "float_denorm_mode_32 0 is not simulated"),
    ],
)
def test_unreadable_text_is_one_clear_sentence(source: str, message: str) -> None:
    with pytest.raises(simulator.SimulatorError, match=re.escape(message)):
        simulator.load(source)


REFUSED = {
    "v_made_up_b32 v1, v2": "unknown opcode v_made_up_b32",
    "v_add_f32_e64 v1, v2, v3 mul:2": "unknown modifier mul of v_add_f32_e64",
    "buffer_load_dword v1, v2, s[4:7], 0 idxen": "unknown modifier idxen of buffer_load_dword",
    "buffer_load_dword v1, v2, s[4:7], 0 offen tfe": "unknown modifier tfe of buffer_load_dword",
    "ds_read_b32 v1, v2 gds": "unknown modifier gds of ds_read_b32",
    "v_add_u32_e32 v1, v2": "2 operands where v_add_u32_e32 has 3",
    "buffer_load_dwordx4 v[2:4], v1, s[4:7], 0 offen": "operand v[2:4]: 4 VGPR or AGPR register(s) expected",
    "s_mov_b32 s102, 0": "s102 is outside of the 102 registers",
    "v_mov_b32_e32 v1, v256": "v256 is outside of the 256 registers",
    "v_mov_b32_e32 v1, -v2": "operand v2: -x and |x| belong to single floats",
    "v_mov_b32_e32 v1, foo": "operand foo is neither a register nor a constant",
    "s_branch .LBB9_9": "branch target .LBB9_9 is not a label",
    "s_waitcnt vmcnt(64)": "vmcnt(64): gfx950 counts",
    "s_waitcnt lgkmcnt(16)": "lgkmcnt(16): gfx950 counts",
    "s_waitcnt foo(0)": "foo(0): gfx950 counts",
    "v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3] cbsz:1": "unknown modifier cbsz",
    "v_pk_mul_f32 v[0:1], v[2:3], 1.0 op_sel:[0,1]": "the high half of a constant",
    "v_pk_add_f16 v0, v2, 1.0": "the high half of a constant",
    "s_mov_b64 s[3:4], 0": "operand s[3:4]: 2 SGPRs start at a multiple of 2",
    "v_mov_b64_e32 v[1:2], v[4:5]": "operand v[1:2]: 2 vector registers start at a multiple of 2",
    "s_load_dwordx4 s[2:5], s[0:1], 0x0": "operand s[2:5]: 4 SGPRs start at a multiple of 4",
    "global_load_dword v1, v2, s[4:5] offset:99999": "offset 99999 does not fit: global_load_dword takes -4096 to 4095",
    "ds_read_b32 v1, v2 offset:65536": "offset 65536 does not fit: ds_read_b32 takes 0 to 65535",
    "buffer_load_dword v1, v2, s[4:7], 0 offen offset:4096": "offset 4096 does not fit",
    "ds_write2_b32 v1, v2, v3 offset0:256 offset1:0": "offset0:256 does not fit: it takes 0 to 255",
    "v_add_u32_e32 v1, v2, s3": "the second source of v_add_u32_e32 is a VGPR",
    "v_cndmask_b32_e64 v1, s2, v3, s[4:5]": "a vector instruction reads at most one SGPR or literal",
    "v_div_fmas_f32 v1, s2, v3, v4": "a vector instruction reads at most one SGPR or literal",
    "v_writelane_b32 v1, s2, s3": "a vector instruction reads at most one SGPR or literal",
    "v_div_scale_f32 v1, vcc, |v2|, v3, v4": "an instruction with a second, scalar result has no room for |x|",
    "v_dot2_f32_f16 v1, v2, v3, -v4": "-x and |x| belong to single floats",
    "v_fma_f32 v1, s2, s3, s4": "a vector instruction reads at most one SGPR or literal",
    "v_add_f32_e64 v1, 0x12345678, v2": "the constant 0x12345678 is no inline constant",
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 1": "MODE bits 0xf become 0x1: only FP16_OVFL may differ",
    "v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,4] row_mask:0xf bank_mask:0xf": "four lane numbers 0 to 3 expected",
    "s_getreg_b32 s1, hwreg(HW_REG_TRAPSTS)": "only HW_REG_HW_ID, HW_REG_MODE, HW_REG_XCC_ID are simulated",
    "v_bitop3_b32 v1, v2, v3, v4": "without its bitop3 truth table",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals_name_kernel_line_and_reason(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_core(*_: object) -> None:
        raise AssertionError("a refusal must not need the core")

    monkeypatch.setattr(build, "core", no_core)
    source = text(f"s_nop 0\n{line}\ns_nop 1\nv_another_one v1")
    with pytest.raises(simulator.UnsupportedInstruction) as caught:
        simulator.load(source)
    error = caught.value
    number = source.split("\n").index(line) + 1
    assert error.kernel == "probe"
    assert [refusal.line for refusal in error.refusals] == [number, number + 2]
    assert error.refusals[0].opcode == line.split()[0]
    for part in ("kernel probe: 2 instruction(s)", f"line {number}: {line}", REFUSED[line], "v_another_one"):
        assert part in str(error)


def test_every_row_has_a_handler_and_every_handler_a_row() -> None:
    names = set(program._handlers(build.core()))
    used = {row.handler for row in isa.TABLE.values()}
    assert used <= names
    assert names - used == {"end_of_text"}


def test_flags_and_scalar_numbers_agree_with_the_core() -> None:
    header = (Path(build.__file__).parent / "core" / "core.h").read_text()
    for name, value in vars(isa).items():
        if name.startswith("FLAG_"):
            found = re.search(rf"{name} = 1u << (\d+)", header)
            assert found is not None and 1 << int(found[1]) == value, name
    assert "SCALAR_VCC = 106, SCALAR_M0 = 124, SCALAR_EXEC = 126, SCALAR_SCC = 128, SCALAR_CONSTANTS = 130" in header


@pytest.fixture
def fresh_build():
    """The build cache of this process is emptied before and after."""
    build._built.cache_clear()
    yield
    build._built.cache_clear()


def test_no_compiler_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_build: None) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(simulator.BuildError, match="no C compiler .* install gcc or set CC"):
        simulator.load(text("s_nop 0"), cache_dir=tmp_path)
    monkeypatch.setenv("CC", "nonesuch-cc")
    with pytest.raises(simulator.BuildError, match="CC=nonesuch-cc is not an executable"):
        simulator.load(text("s_nop 0"), cache_dir=tmp_path)


def test_a_failing_compiler_shows_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_build: None) -> None:
    fake = tmp_path / "fakecc"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo fake 1 && exit 0\necho "the disk is melting" >&2\nexit 1\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(simulator.BuildError, match="cannot build the simulator's core: the disk is melting"):
        simulator.load(text("s_nop 0"), cache_dir=tmp_path / "cache")
    assert not [p for p in (tmp_path / "cache").iterdir() if p.suffix != ".lock"]


def test_an_unusable_cache_folder_is_named(tmp_path: Path, fresh_build: None) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(simulator.BuildError, match="core cannot be kept in .*file/cache"):
        simulator.load(text("s_nop 0"), cache_dir=tmp_path / "file" / "cache")


def test_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / "inductor_flydsl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / ".cache" / "inductor_flydsl"


def test_a_portable_build_gives_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_build: None
) -> None:
    """Without any -march, as on a machine with another processor: a matrix product is bit-equal."""
    random = np.random.default_rng(1).integers(0, 2**32, (8, 64), np.uint32) & np.uint32(0xBFFFBFFF)
    vectors = {f"v{10 + n}": row for n, row in enumerate(random)}
    body = "v_mfma_f32_16x16x32_bf16 v[20:23], v[10:13], v[14:17], 1.0\nv_cvt_pk_bf16_f32 v24, v20, v21"
    read = [f"v{n}" for n in range(20, 25)]
    tuned = kernels.run_wave(body, vectors=vectors, read=read).vectors
    build._built.cache_clear()
    monkeypatch.setattr(build, "_arch_flags", lambda: ())
    # Unoptimised, because this test is about the flags' absence, not about speed.
    monkeypatch.setattr(build, "_FLAGS", tuple("-O1" if flag == "-O3" else flag for flag in build._FLAGS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = kernels.run_wave(body, vectors=vectors, read=read).vectors
    assert len(list((tmp_path / "inductor_flydsl").glob("*.so"))) == 1
    for register in read:
        assert (tuned[register] == plain[register]).all()


@pytest.mark.skipif(sys.platform != "linux", reason="file modes are tested on Linux only")
def test_the_built_core_is_readable_by_others() -> None:
    path = build._built(folders.cache_folder())
    assert os.stat(path).st_mode & 0o044 == 0o044
