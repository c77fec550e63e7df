"""Memory instructions: scalar, buffer, global, scratch, LDS and loads to LDS, atomics, and moves between lanes."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import ALL_LANES, LANES, U32, buffer, lane_mask, run_wave

PARTIAL = 0xF0F0_0001_8000_55AA
OLD = np.arange(LANES, dtype=np.uint32) * 0x01010101 + 0x55
LANE = np.arange(LANES, dtype=np.uint32)


def memory(nbytes: int, seed: int = 0) -> np.ndarray:
    """Random bytes, 16-byte aligned as allocators give them."""
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def pointer(address: int, number: int = 20) -> dict[int, int]:
    return {number: address & 0xFFFFFFFF, number + 1: address >> 32}


def descriptor(array: np.ndarray, nbytes: int | None = None) -> dict[int, int]:
    """A raw buffer descriptor in s[20:23]."""
    return pointer(array.ctypes.data) | {22: array.nbytes if nbytes is None else nbytes, 23: 0x27000}


def dword(data: np.ndarray, offset: int) -> int:
    return int.from_bytes(bytes(data[offset : offset + 4]), "little")


def offsets(limit: int, unit: int, seed: int = 1) -> U32:
    return (np.random.default_rng(seed).integers(0, limit // unit, LANES, np.uint32) * unit).astype(np.uint32)


LOADS = {
    "dword": (1, lambda d, o: [dword(d, o)]),
    "dwordx2": (2, lambda d, o: [dword(d, o + 4 * q) for q in range(2)]),
    "dwordx3": (3, lambda d, o: [dword(d, o + 4 * q) for q in range(3)]),
    "dwordx4": (4, lambda d, o: [dword(d, o + 4 * q) for q in range(4)]),
    "ubyte": (1, lambda d, o: [int(d[o])]),
    "sbyte": (1, lambda d, o: [int(d[o : o + 1].view(np.int8)[0]) & 0xFFFFFFFF]),
    "ushort": (1, lambda d, o: [dword(d, o) & 0xFFFF]),
    "sshort": (1, lambda d, o: [(dword(d, o) & 0xFFFF ^ 0x8000) - 0x8000 & 0xFFFFFFFF]),
}


def span(bank: str, first: int, count: int) -> str:
    return f"{bank}{first}" if count == 1 else f"{bank}[{first}:{first + count - 1}]"


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
@pytest.mark.parametrize("space", ["buffer", "global", "global_saddr", "ds", "scratch"])
@pytest.mark.parametrize("name", LOADS)
def test_loads(space: str, name: str, mask: int) -> None:
    count, model = LOADS[name]
    data = memory(4096)
    at = offsets(4096 - 64, 2 if "short" in name else 1 if "byte" in name else 4)
    destination = span("v", 30, count)
    vectors: dict[str, U32] = {"v10": at} | {f"v{30 + q}": OLD for q in range(count)}
    scalars = descriptor(data)
    scratch = 0
    lds = 0
    setup = ""
    if space == "buffer":
        body = f"buffer_load_{name} {destination}, v10, s[20:23], s24 offen offset:16"
        scalars |= {24: 4}
        moved = 20
    elif space == "global_saddr":
        body, moved = f"global_load_{name} {destination}, v10, s[20:21] offset:-8", -8
        vectors["v10"] = at = at + 8
    elif space == "global":
        address = data.ctypes.data + at.astype(np.uint64)
        vectors |= {"v10": (address & 0xFFFFFFFF).astype(np.uint32), "v11": (address >> 32).astype(np.uint32)}
        body, moved = f"global_load_{name} {destination}, v[10:11], off offset:24 sc0 nt", 24
    elif space == "ds":
        lds_name = {
            "dword": "b32",
            "dwordx2": "b64",
            "dwordx3": "b96",
            "dwordx4": "b128",
            "ubyte": "u8",
            "sbyte": "i8",
            "ushort": "u16",
            "sshort": "i16",
        }[name]
        # Fill LDS from memory, 16 bytes a lane and step.
        setup = "\n".join(
            f"global_load_dwordx4 v[40:43], v44, s[20:21] offset:{o}\nds_write_b128 v44, v[40:43] offset:{o}"
            for o in range(0, 4096, 1024)
        )
        vectors["v44"] = LANE * 16
        lds = 4096
        body, moved = f"ds_read_{lds_name} {destination}, v10 offset:32", 32
    else:
        # Private memory: each lane copies the first 256 bytes of data, and reads from within.
        vectors["v10"] = at = at % 192 // 4 * 4
        load, store = "global_load_dwordx4 v[40:43], v44, s[20:21]", "scratch_store_dwordx4 off, v[40:43], off"
        setup = "\n".join(f"{load} offset:{o}\n{store} offset:{o}" for o in range(0, 256, 16))
        vectors["v44"] = 0 * LANE
        scratch = 256
        body, moved = f"scratch_load_{name} {destination}, v10, off offset:4", 4
    body = f"s_mov_b64 s[26:27], exec\ns_mov_b64 exec, -1\n{setup}\ns_mov_b64 exec, s[26:27]\n{body}"
    found = run_wave(
        body,
        vectors=vectors,
        scalars=scalars,
        read=[f"v{30 + q}" for q in range(count)],
        exec_mask=mask,
        lds_bytes=lds,
        scratch_bytes=scratch,
        extra=[buffer(data, "data")],
    )
    for lane in range(LANES):
        wanted = model(data, int(at[lane]) + moved) if mask >> lane & 1 else [int(OLD[lane])] * count
        assert [int(found.vectors[f"v{30 + q}"][lane]) for q in range(count)] == wanted, lane


STORES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "byte": 1, "short": 2}


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
@pytest.mark.parametrize("space", ["buffer", "global", "ds"])
@pytest.mark.parametrize("name", STORES)
def test_stores(space: str, name: str, mask: int) -> None:
    size = STORES[name]
    count = max(size // 4, 1)
    target = memory(2048, 3)
    before = target.copy()
    slots = np.random.default_rng(4).permutation(LANES).astype(np.uint32) * 16
    values = [np.random.default_rng(5 + q).integers(0, 2**32, LANES, np.uint32) for q in range(count)]
    vectors = {"v10": slots} | {f"v{30 + q}": v for q, v in enumerate(values)}
    source = span("v", 30, count)
    lds = 0
    if space == "buffer":
        body = f"buffer_store_{name} {source}, v10, s[20:23], 0 offen offset:32"
    elif space == "global":
        body = f"global_store_{name} v10, {source}, s[20:21] offset:32"
    else:
        lds = 2048
        lds_name = {1: "b8", 2: "b16", 4: "b32", 8: "b64", 12: "b96", 16: "b128"}[size]
        copy = "\n".join(
            f"global_load_dwordx4 v[40:43], v44, s[20:21] offset:{o}\nds_write_b128 v44, v[40:43] offset:{o}"
            for o in (0, 1024)
        )
        back = "\n".join(
            f"ds_read_b128 v[40:43], v44 offset:{o}\nglobal_store_dwordx4 v44, v[40:43], s[20:21] offset:{o}"
            for o in (0, 1024)
        )
        vectors["v44"] = LANE * 16
        body = (
            f"s_mov_b64 s[26:27], exec\ns_mov_b64 exec, -1\n{copy}\ns_mov_b64 exec, s[26:27]\n"
            f"ds_write_{lds_name} v10, {source} offset:32\ns_mov_b64 exec, -1\n{back}"
        )
    run_wave(
        body,
        vectors=vectors,
        scalars=descriptor(target),
        exec_mask=mask,
        lds_bytes=lds,
        extra=[buffer(target, "target", writable=True)],
    )
    for lane in range(LANES):
        if mask >> lane & 1:
            at = int(slots[lane]) + 32
            before[at : at + size] = np.frombuffer(
                b"".join(int(v[lane]).to_bytes(4, "little") for v in values), np.uint8
            )[:size]
    assert (target == before).all()


def test_half_registers() -> None:
    data = memory(512)
    body = """
        buffer_load_short_d16 v30, v10, s[20:23], 0 offen
        buffer_load_short_d16_hi v31, v10, s[20:23], 0 offen
        buffer_store_short_d16_hi v32, v11, s[20:23], 0 offen
    """
    values = np.random.default_rng(1).integers(0, 2**32, LANES, np.uint32)
    before = data.copy()
    vectors = {"v10": LANE * 2, "v11": LANE * 2 + 256, "v30": OLD, "v31": OLD, "v32": values}
    found = run_wave(
        body,
        vectors=vectors,
        scalars=descriptor(data),
        read=["v30", "v31"],
        extra=[buffer(data, "data", writable=True)],
    ).vectors
    halves = before[:128].view(np.uint16).astype(np.uint32)
    assert (found["v30"] == (OLD & 0xFFFF0000 | halves)).all()
    assert (found["v31"] == (OLD & 0xFFFF | halves << 16)).all()
    assert (data[256:384].view(np.uint16) == values >> 16).all()


@pytest.mark.parametrize("records", [0, 4, 250, 252, 256, 1024])
def test_buffer_bounds(records: int) -> None:
    """Past num_records loads give 0 and stores are dropped, dword by dword; memory behind it is never touched."""
    data = memory(1024)
    before = data.copy()
    at = (LANE * 4 + 8).astype(np.uint32)
    at[60:] = (0x7FFFFFF0, 0xFFFFFFFF, 0x80000000, 1020)
    values = [np.random.default_rng(5 + q).integers(0, 2**32, LANES, np.uint32) for q in range(2)]
    body = """
        buffer_load_dwordx4 v[30:33], v10, s[20:23], s24 offen
        buffer_load_ushort v34, v10, s[20:23], s24 offen
        buffer_store_dwordx2 v[40:41], v10, s[20:23], s24 offen
    """
    vectors = {"v10": at, "v40": values[0], "v41": values[1]} | {f"v{n}": OLD for n in range(30, 35)}
    found = run_wave(
        body,
        vectors=vectors,
        scalars=descriptor(data, records) | {24: 16},
        read=[f"v{n}" for n in range(30, 35)],
        extra=[buffer(data, "data", writable=True)],
    )
    for lane in range(LANES):
        position = int(at[lane]) + 16
        for q in range(4):
            inside = position + 4 * q + 4 <= records
            assert found.vectors[f"v{30 + q}"][lane] == (dword(before, position + 4 * q) if inside else 0)
        inside = position + 2 <= records
        assert found.vectors["v34"][lane] == (dword(before, position) & 0xFFFF if inside else 0)
    expected = before.copy()
    for lane in range(LANES):
        for q in range(2):
            position = int(at[lane]) + 16 + 4 * q
            if position + 4 <= records:
                expected[position : position + 4] = np.frombuffer(int(values[q][lane]).to_bytes(4, "little"), np.uint8)
    assert (data == expected).all()


@pytest.mark.parametrize("name", ["dword", "dwordx3", "dwordx4"])
@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_buffer_load_to_lds(name: str, mask: int) -> None:
    """LDS address M0 + immediate + lane * size, whatever EXEC is; a lane out of range writes 0."""
    dwords = int(name[-1]) if name[-1].isdigit() else 1
    data = memory(1024)
    at = offsets(1024, 4)
    size = 4 * dwords
    body = """
        s_mov_b32 m0, 64
        s_mov_b64 s[26:27], exec
        s_mov_b64 exec, -1
        v_lshlrev_b32_e32 v20, 2, v11
    """
    body += "\n".join(f"ds_write_b32 v20, v12 offset:{256 * n}" for n in range(5))
    body += f"""
        s_mov_b64 exec, s[26:27]
        buffer_load_{name} v10, s[20:23], 0 offen offset:8 sc0 lds
        s_mov_b64 exec, -1
        v_mul_u32_u24_e32 v21, {size}, v11
        ds_read_b32 v30, v21 offset:72
        ds_read_b32 v31, v21 offset:{72 + size - 4}
        ds_read_b32 v32, v20
    """
    found = run_wave(
        body,
        vectors={"v10": at, "v11": LANE, "v12": OLD},
        scalars=descriptor(data, 1000),
        read=["v30", "v31", "v32"],
        exec_mask=mask,
        lds_bytes=1280,
        extra=[buffer(data, "data")],
    )
    old = np.concatenate([OLD] * 5)
    for lane in range(LANES):
        for register, q in (("v30", 0), ("v31", dwords - 1)):
            if mask >> lane & 1:
                position = int(at[lane]) + 8 + 4 * q
                wanted = dword(data, position) if position + 4 <= 1000 else 0
            else:
                wanted = int(old[18 + lane * dwords + q])
            assert found.vectors[register][lane] == wanted, (lane, register)
    assert (found.vectors["v32"][:18] == OLD[:18]).all()
    assert found.result.lds_dma_bytes == size * mask.bit_count()


def test_global_load_to_lds() -> None:
    data = memory(1024)
    at = offsets(1000, 4)
    body = """
        s_mov_b32 m0, 0
        global_load_lds_dwordx4 v10, s[20:21] offset:4
        v_lshlrev_b32_e32 v20, 4, v11
        ds_read_b128 v[30:33], v20 offset:4
    """
    found = run_wave(
        body,
        vectors={"v10": at, "v11": LANE},
        scalars=pointer(data.ctypes.data),
        lds_bytes=1040,
        read=["v30", "v31", "v32", "v33"],
        extra=[buffer(data, "data")],
    ).vectors
    for lane in range(LANES):
        for q in range(4):
            assert found[f"v{30 + q}"][lane] == dword(data, int(at[lane]) + 4 + 4 * q)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_scalar_loads(count: int) -> None:
    data = memory(256)
    name = "s_load_dword" + (f"x{count}" if count > 1 else "")
    body = f"{name} {span('s', 32, count)}, s[20:21], 0x14\n{name} {span('s', 48, count)}, s[20:21], s24"
    found = run_wave(
        body,
        scalars=pointer(data.ctypes.data) | {24: 64},
        read_scalars=[*range(32, 32 + count), *range(48, 48 + count)],
        extra=[buffer(data, "data")],
    ).scalars
    assert [found[32 + q] for q in range(count)] == [dword(data, 0x14 + 4 * q) for q in range(count)]
    assert [found[48 + q] for q in range(count)] == [dword(data, 64 + 4 * q) for q in range(count)]


def test_scalar_buffer_load_past_the_end_is_zero() -> None:
    data = memory(64)
    body = "s_buffer_load_dwordx4 s[32:35], s[20:23], 0x8\ns_buffer_load_dwordx2 s[36:37], s[20:23], s24"
    found = run_wave(
        body, scalars=descriptor(data, 16) | {24: 7}, read_scalars=range(32, 38), extra=[buffer(data, "data")]
    ).scalars
    assert [found[n] for n in range(32, 36)] == [dword(data, 8), dword(data, 12), 0, 0]
    assert [found[36], found[37]] == [dword(data, 4), dword(data, 8)]


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_paired_lds_accesses(mask: int) -> None:
    a, b, c, d = (np.random.default_rng(n).integers(0, 2**32, LANES, np.uint32) for n in range(4))
    body = """
        ds_write2_b32 v10, v20, v21 offset0:3 offset1:9
        ds_write2st64_b32 v11, v22, v23 offset0:8 offset1:9
        ds_write2_b64 v12, v[20:21], v[22:23] offset0:200 offset1:201
        ds_read2_b32 v[30:31], v10 offset0:9 offset1:3
        ds_read2st64_b32 v[32:33], v11 offset0:9 offset1:8
        ds_read2_b64 v[34:37], v12 offset0:201 offset1:200
    """
    # Apart from each other: a 64-byte line per lane, a row of dwords behind them, and 16 bytes per lane behind those.
    vectors = {"v10": LANE * 64, "v11": LANE * 4 + 8192, "v12": LANE * 16 + 16384}
    vectors |= {"v20": a, "v21": b, "v22": c, "v23": d} | {f"v{n}": OLD for n in range(30, 38)}
    found = run_wave(
        body, vectors=vectors, read=[f"v{n}" for n in range(30, 38)], exec_mask=mask, lds_bytes=32768
    ).vectors
    active = lane_mask(mask)
    for register, wanted in zip(range(30, 38), (b, a, d, c, c, d, a, b), strict=True):
        assert (found[f"v{register}"] == np.where(active, wanted, OLD)).all(), register


@pytest.mark.parametrize("bits", [16, 8])
def test_transposed_lds_reads(bits: int) -> None:
    low, high = (np.random.default_rng(n).integers(0, 2**32, LANES, np.uint32) for n in (1, 2))
    where = np.random.default_rng(3).permutation(LANES).astype(np.uint32) * 8
    body = f"ds_write_b64 v10, v[20:21]\nds_read_b64_tr_b{bits} v[30:31], v10"
    found = run_wave(body, vectors={"v10": where, "v20": low, "v21": high}, read=["v30", "v31"], lds_bytes=512).vectors
    kind = np.uint16 if bits == 16 else np.uint8
    before = np.stack([low, high], axis=1).view(kind)
    after = np.stack([found["v30"], found["v31"]], axis=1).view(kind)
    per_lane = 64 // bits
    for lane in range(LANES):
        block, inner = lane // 16 * 16, lane % 16
        for element in range(per_lane):
            source = block + 16 // per_lane * element + inner // per_lane
            assert after[lane, element] == before[source, inner % per_lane]


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


def add_f32(x: int, y: int) -> int:
    return int((np.uint32(x).view(np.float32) + np.uint32(y).view(np.float32)).view(np.uint32))


ATOMICS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "umin": min,
    "umax": max,
    "swap": lambda x, y: y,
    "add_f32": add_f32,
    "smin": lambda x, y: min(x, y, key=signed),
    "smax": lambda x, y: max(x, y, key=signed),
}
LDS_NAMES = {
    "add": "ds_add_rtn_u32",
    "sub": "ds_sub_rtn_u32",
    "and": "ds_and_rtn_b32",
    "or": "ds_or_rtn_b32",
    "xor": "ds_xor_rtn_b32",
    "umin": "ds_min_rtn_u32",
    "umax": "ds_max_rtn_u32",
    "smin": "ds_min_rtn_i32",
    "smax": "ds_max_rtn_i32",
    "swap": "ds_wrxchg_rtn_b32",
    "add_f32": "ds_add_rtn_f32",
}


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
@pytest.mark.parametrize("space", ["buffer", "global", "ds"])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_on_shared_addresses(space: str, name: str, mask: int) -> None:
    cells = np.random.default_rng(7).integers(0, 2**32, LANES, np.uint32)
    values = np.random.default_rng(8).integers(0, 2**32, LANES, np.uint32)
    if name == "add_f32":
        cells, values = (np.random.default_rng(n).normal(size=LANES).astype(np.float32).view(np.uint32) for n in (7, 8))
    at = (LANE % 5 * 4).astype(np.uint32)
    target = cells.copy()
    lds = 0
    if space == "buffer":
        body = f"v_mov_b32_e32 v30, v20\nbuffer_atomic_{name} v30, v10, s[20:23], 0 offen sc0"
    elif space == "global":
        body = f"global_atomic_{name} v30, v10, v20, s[20:21] sc0"
    else:
        lds = 256
        body = f"""
            s_mov_b64 s[26:27], exec
            s_mov_b64 exec, -1
            ds_write_b32 v11, v21
            s_mov_b64 exec, s[26:27]
            {LDS_NAMES[name]} v30, v10, v20
            s_mov_b64 exec, -1
            ds_read_b32 v22, v11
            global_store_dword v11, v22, s[20:21]
        """
    vectors = {"v10": at, "v11": LANE * 4, "v20": values, "v21": cells, "v30": OLD}
    found = run_wave(
        body,
        vectors=vectors,
        scalars=descriptor(target.view(np.uint8)),
        read=["v30"],
        exec_mask=mask,
        lds_bytes=lds,
        extra=[buffer(target, "target", writable=True)],
    ).vectors["v30"]
    expected = cells.copy()
    for lane in range(LANES):
        if not mask >> lane & 1:
            assert found[lane] == OLD[lane]
            continue
        cell = lane % 5
        assert found[lane] == expected[cell]
        expected[cell] = ATOMICS[name](int(expected[cell]), int(values[lane])) & 0xFFFFFFFF
    assert (target == expected).all()


def test_packed_and_comparing_atomics() -> None:
    target = np.array([0x3C004000, 0x3F804000, 7, 8], np.uint32)
    body = """
        s_mov_b64 exec, 1
        global_atomic_pk_add_f16 v10, v20, s[20:21]
        global_atomic_pk_add_bf16 v10, v21, s[20:21] offset:4
        global_atomic_cmpswap v30, v10, v[22:23], s[20:21] offset:8 sc0
        global_atomic_cmpswap v31, v10, v[22:23], s[20:21] offset:12 sc0
    """
    constants = {"v10": 0, "v20": 0x40003C00, "v21": 0x40003F80, "v22": 99, "v23": 7, "v30": 0, "v31": 0}
    vectors = {name: np.full(LANES, value, np.uint32) for name, value in constants.items()}
    found = run_wave(
        body,
        vectors=vectors,
        scalars=pointer(target.ctypes.data),
        read=["v30", "v31"],
        extra=[buffer(target, "target", writable=True)],
    ).vectors
    assert target.tolist() == [0x42004200, 0x40404040, 99, 8]
    assert (found["v30"][0], found["v31"][0]) == (7, 8)


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_moves_between_lanes(mask: int) -> None:
    value = np.random.default_rng(1).integers(0, 2**32, LANES, np.uint32)
    address = np.random.default_rng(2).integers(0, 2**32, LANES, np.uint32)
    body = """
        ds_bpermute_b32 v30, v11, v10 offset:8
        ds_swizzle_b32 v31, v10 offset:swizzle(SWAP,8)
        ds_swizzle_b32 v32, v10 offset:swizzle(REVERSE,16)
        ds_swizzle_b32 v33, v10 offset:swizzle(BITMASK_PERM, "01pip")
        v_readfirstlane_b32 s24, v10
        v_readlane_b32 s25, v10, s20
        v_writelane_b32 v34, s21, 63
        v_swap_b32 v35, v36
    """
    outputs = [f"v{n}" for n in range(30, 37)]
    vectors = {"v10": value, "v11": address} | dict.fromkeys(outputs, OLD) | {"v36": value}
    found = run_wave(
        body, vectors=vectors, scalars={20: 5 + 64, 21: 1234}, read=outputs, read_scalars=(24, 25), exec_mask=mask
    )
    active = lane_mask(mask)

    def moved(source: np.ndarray) -> np.ndarray:
        return np.where(active, np.where(active[source], value[source], 0), OLD)

    lane = LANE.astype(int)
    assert (found.vectors["v30"] == moved((address.astype(np.int64) + 8 >> 2) % 64)).all()
    assert (found.vectors["v31"] == moved(lane ^ 8)).all()
    assert (found.vectors["v32"] == moved(lane ^ 15)).all()
    # Bit 4 is 0, bit 3 is 1, bit 2 kept, bit 1 inverted, bit 0 kept; halves of 32 stay apart.
    assert (found.vectors["v33"] == moved(lane & 32 | 8 | lane & 4 | (lane ^ 2) & 2 | lane & 1)).all()
    assert found.scalars[24] == value[(mask & -mask).bit_length() - 1]
    assert found.scalars[25] == value[5]
    assert found.vectors["v34"][63] == 1234
    assert (found.vectors["v34"][:63] == OLD[:63]).all()
    assert (found.vectors["v35"] == np.where(active, value, OLD)).all()
    assert (found.vectors["v36"] == np.where(active, OLD, value)).all()


def test_readfirstlane_without_active_lanes_reads_lane_0() -> None:
    found = run_wave("v_readfirstlane_b32 s24, v10", vectors={"v10": OLD}, read_scalars=(24,), exec_mask=0)
    assert found.scalars[24] == OLD[0]


@pytest.mark.parametrize("distance", [16, 32])
def test_permlane_swap(distance: int) -> None:
    first, second = (np.random.default_rng(n).integers(0, 2**32, LANES, np.uint32) for n in (1, 2))
    body = f"v_permlane{distance}_swap_b32_e32 v10, v11"
    found = run_wave(body, vectors={"v10": first, "v11": second}, read=["v10", "v11"]).vectors
    a, b = first.reshape(-1, 2, distance).copy(), second.reshape(-1, 2, distance).copy()
    a[:, 1], b[:, 0] = second.reshape(-1, 2, distance)[:, 0], first.reshape(-1, 2, distance)[:, 1]
    assert (found["v10"] == a.reshape(-1)).all()
    assert (found["v11"] == b.reshape(-1)).all()


def test_counters_count_bytes() -> None:
    data = memory(1024)
    target = np.zeros(256, np.uint32)
    body = """
        buffer_load_dwordx4 v[30:33], v10, s[20:23], 0 offen
        global_store_dwordx2 v11, v[30:31], s[24:25]
    """
    plain = run_wave("s_nop 0", vectors={"v10": LANE, "v11": LANE}).result
    found = run_wave(
        body,
        vectors={"v10": LANE * 16, "v11": LANE * 8},
        scalars=descriptor(data, 512) | pointer(target.ctypes.data, 24),
        exec_mask=PARTIAL,
        extra=[buffer(data, "data"), buffer(target, "target", writable=True)],
    ).result
    inside = sum(PARTIAL >> lane & 1 for lane in range(32))
    assert found.global_load_bytes - plain.global_load_bytes == 16 * inside
    assert found.global_store_bytes - plain.global_store_bytes == 8 * PARTIAL.bit_count()
    assert found.out_of_range_lanes == PARTIAL.bit_count() - inside
