/* libFuzzer target: any bytes as a recording, replayed under its policy and simulated under it,
 * requests of cells under others, too. The input is the file from behind the header; header and
 * checksums are put right, so that the fuzzer gets past them. Anything but a damaged or an
 * impossible story is carried out, with every invariant checked. */
/* covers: record/recording_reader.c record/record_cells.c lab/replay/replay.c */
#include "lab/replay/replay.h"
#include "lab/run/scenario_run.h"

#include <stdlib.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *with_checksums(const uint8_t *data, size_t size) {
    uint8_t *bytes = calloc(1, TT_RECORDING_HEADER_BYTES + size);
    tt_assert(bytes != NULL);
    memcpy(bytes, TT_RECORDING_MAGIC, 8);
    tt_put_u32(bytes + 8, TT_RECORDING_VERSION);
    tt_put_u32(bytes + 36, (uint32_t)crc32(0, bytes, 36));
    uint8_t *block = bytes + TT_RECORDING_HEADER_BYTES, *end = block + size;
    memcpy(block, data, size);
    while (end - block >= TT_RECORDING_BLOCK_BYTES) {
        size_t payload = tt_get_u32(block + 8), left = (size_t)(end - block);
        if (payload > left - TT_RECORDING_BLOCK_BYTES)
            break;
        tt_put_u32(block, TT_RECORDING_BLOCK_MARK);
        tt_put_u32(block + 12, tt_recording_crc(block, block + TT_RECORDING_BLOCK_BYTES, payload));
        block += TT_RECORDING_BLOCK_BYTES + payload;
    }
    return bytes;
}

/* `policy` NULL: the recorded one. */
static void simulate(struct tt_replay *replay, const char *policy) {
    struct tt_scenario scenario;
    struct tt_error why;
    if (replay->differs || tt_replay_scenario(replay, policy, NULL, 0, &scenario, &why) != TT_OK)
        return;
    struct tt_scenario_result result;
    if (tt_scenario_run(&scenario, true, NULL, NULL, &result, &why) == TT_OK)
        tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = with_checksums(data, size);
    struct tt_error why;
    struct tt_recording recording;
    enum tt_err err =
        tt_recording_open_memory(bytes, TT_RECORDING_HEADER_BYTES + size, "fuzz", &recording, &why);
    for (int32_t stream = 0; !err && stream < recording.domain_count; stream++) {
        struct tt_replay replay;
        if (tt_replay_run(&recording, stream, true, NULL, &replay, &why) != TT_OK)
            continue;
        simulate(&replay, NULL);
        if (replay.cells.request_count > 0) {
            simulate(&replay, "cellular");
            simulate(&replay, "lazy");
            simulate(&replay, "padded");
        }
        tt_replay_fini(&replay);
    }
    if (!err)
        tt_recording_close(&recording);
    free(bytes);
    return 0;
}
