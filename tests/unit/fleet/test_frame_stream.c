/* Frames with payloads out of a stream, whatever the cuts, and tensors out of payloads. */
#include "base/prng.h"
#include "fleet/frame_stream.h"
#include "fleet/tensor_payload.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FRAMES = 400, MAX_COUNT = 6, MAX_PAYLOAD = 3000, LIMIT = 1 << 20 };

static struct tt_frame_record records[TT_FRAME_MAX_RECORDS];

/* Appends a frame; its payload's bytes are those of `id`. */
static size_t write_frame(struct tt_prng *prng, uint8_t *out, uint64_t id) {
    static const enum tt_frame_type types[] = {TT_FRAME_INPUT, TT_FRAME_RESULT, TT_FRAME_TICKET,
                                               TT_FRAME_BEAT};
    struct tt_frame_record made[MAX_COUNT] = {{0}};
    struct tt_frame frame = {
        .type = types[tt_prng_below(prng, TT_COUNT(types))], .epoch = id, .records = made};
    frame.count = frame.type == TT_FRAME_BEAT ? 0 : 1 + (int32_t)tt_prng_below(prng, MAX_COUNT - 1);
    for (int32_t i = 0; i < frame.count; i++)
        made[i] = (struct tt_frame_record){.id = id,
                                           .length = (uint32_t)tt_prng_below(prng, MAX_PAYLOAD)};
    tt_frame_write(&frame, out);
    size_t bytes = tt_frame_bytes(frame.count), payload = (size_t)tt_frame_payload_bytes(&frame);
    memset(out + bytes, (int)(id & 0xff), payload);
    return bytes + payload;
}

static void frames_survive_any_cuts(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    uint8_t *bytes = calloc(FRAMES, (MAX_COUNT + 1) * (MAX_PAYLOAD + 64));
    assert_non_null(bytes);
    size_t total = 0;
    for (uint64_t id = 0; id < FRAMES; id++)
        total += write_frame(&prng, bytes + total, id);
    struct tt_frame_stream stream;
    tt_frame_stream_init(&stream, LIMIT);
    struct tt_received received;
    struct tt_error why;
    uint64_t next = 0;
    for (size_t at = 0; at < total;) {
        size_t room, some = 1 + tt_prng_below(&prng, 9000);
        uint8_t *to = tt_frame_stream_room(&stream, 512, &room);
        assert_non_null(to);
        some = some > room ? room : some;
        some = some > total - at ? total - at : some;
        memcpy(to, bytes + at, some);
        tt_frame_stream_add(&stream, some);
        at += some;
        for (bool has = true; has;) {
            assert_int_equal(tt_frame_stream_next(&stream, records, &received, &has, &why), TT_OK);
            if (!has)
                break;
            assert_int_equal(received.frame.epoch, next);
            assert_int_equal(received.payload_bytes, tt_frame_payload_bytes(&received.frame));
            for (size_t i = 0; i < received.payload_bytes; i++)
                assert_int_equal(received.payload[i], next & 0xff);
            next++;
        }
    }
    assert_int_equal(next, FRAMES);
    tt_frame_stream_fini(&stream);
    free(bytes);
}

static void large_payloads_are_refused(void **state) {
    (void)state;
    struct tt_frame_record one = {.length = 1001};
    struct tt_frame frame = {.type = TT_FRAME_INPUT, .count = 1, .records = &one};
    struct tt_frame_stream stream;
    tt_frame_stream_init(&stream, 1000);
    size_t room;
    uint8_t *to = tt_frame_stream_room(&stream, tt_frame_bytes(1), &room);
    tt_frame_write(&frame, to);
    tt_frame_stream_add(&stream, tt_frame_bytes(1));
    struct tt_received received;
    bool has;
    struct tt_error why;
    assert_int_equal(tt_frame_stream_next(&stream, records, &received, &has, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "a frame with a payload of 1001 bytes; at most 1000");
    tt_frame_stream_fini(&stream);
}

static void tensors_survive(void **state) {
    (void)state;
    static const uint8_t content[] = "abcdefghijkl";
    const struct tt_tensor_view views[] = {
        {.bytes = content, .size_bytes = 12, .shape = {.rank = 2, .dims = {1, 3}}},
        {.bytes = content, .size_bytes = 5, .shape = {.rank = 1, .dims = {5}}},
        {.bytes = content, .size_bytes = 0, .shape = {.rank = 0}}};
    uint8_t bytes[512];
    size_t length = tt_tensors_bytes(views, 3);
    assert_true(length <= sizeof(bytes));
    tt_tensors_write(views, 3, bytes);
    struct tt_tensor_view back[3];
    struct tt_error why;
    assert_int_equal(tt_tensors_read(bytes, length, 3, back, &why), TT_OK);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(back[i].size_bytes, views[i].size_bytes);
        assert_int_equal(back[i].shape.rank, views[i].shape.rank);
        assert_memory_equal(back[i].shape.dims, views[i].shape.dims, sizeof(int64_t) * 2);
        assert_memory_equal(back[i].bytes, content, views[i].size_bytes);
    }
    assert_false(tt_tensors_asks_words(bytes, length));
    tt_tensors_ask_words(bytes);
    assert_true(tt_tensors_asks_words(bytes, length));
    assert_false(tt_tensors_asks_words(bytes, 7));
    assert_int_equal(tt_tensors_read(bytes, length, 3, back, &why), TT_OK);
    assert_int_equal(tt_tensors_read(bytes, length, 2, back, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "a payload has 3 tensors; expected were 2");
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(tt_tensors_read(bytes, cut, 3, back, &why), TT_ERR_INVALID);
    enum tt_err err;
    tt_result_head_write(TT_ERR_TIMEOUT, bytes);
    assert_int_equal(tt_result_head_read(bytes, TT_RESULT_HEAD_BYTES, &err, &why), TT_OK);
    assert_int_equal(err, TT_ERR_TIMEOUT);
    bytes[0] = 200;
    assert_int_equal(tt_result_head_read(bytes, TT_RESULT_HEAD_BYTES, &err, &why), TT_ERR_INVALID);
    assert_int_equal(tt_result_head_read(bytes, 7, &err, &why), TT_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_survive_any_cuts),
        cmocka_unit_test(large_payloads_are_refused),
        cmocka_unit_test(tensors_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
