/* Frames: what is written is read back, whatever the cuts; bytes that are no frame are refused with
 * a reason; and roles take any records from others without harm. */
#include "base/prng.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { BYTES = 4096, TRIALS = 2000, MAX_DRAWN = 16 };

static struct tt_frame_record draw_record(struct tt_prng *prng) {
    return (struct tt_frame_record){.id = tt_prng_next(prng),
                                    .duration_ns = (int64_t)(tt_prng_next(prng) >> 1),
                                    .length = (uint32_t)tt_prng_next(prng),
                                    .model = (uint16_t)tt_prng_next(prng),
                                    .rows = (uint16_t)tt_prng_next(prng),
                                    .node = (uint16_t)tt_prng_next(prng),
                                    .attempt = (uint16_t)tt_prng_next(prng),
                                    .device = (uint16_t)tt_prng_next(prng),
                                    .code = (uint16_t)tt_prng_next(prng)};
}

static bool has_no_records(enum tt_frame_type type) {
    return type == TT_FRAME_CLAIM || type == TT_FRAME_STALE || type == TT_FRAME_BEAT ||
           type == TT_FRAME_ASK || type == TT_FRAME_RESIGN || type == TT_FRAME_LEAVE;
}

/* A frame of random content with a count that its type allows. */
static struct tt_frame draw_frame(struct tt_prng *prng, struct tt_frame_record *records) {
    struct tt_frame frame = {.type =
                                 (enum tt_frame_type)(1 + tt_prng_below(prng, TT_FRAME_TYPES - 1)),
                             .epoch = tt_prng_next(prng),
                             .records = records};
    frame.count = 2 + (int32_t)tt_prng_below(prng, MAX_DRAWN - 2);
    if (has_no_records(frame.type))
        frame.count = 0;
    if (frame.type == TT_FRAME_OPINION || frame.type == TT_FRAME_WISHED ||
        frame.type == TT_FRAME_REMOTE || frame.type == TT_FRAME_MODEL)
        frame.count = 1;
    for (int32_t i = 0; i < frame.count; i++)
        records[i] = draw_record(prng);
    return frame;
}

static void frames_survive_the_codec(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    static struct tt_frame_record written[MAX_DRAWN], read[TT_FRAME_MAX_RECORDS];
    for (int32_t i = 0; i < TRIALS; i++) {
        uint8_t bytes[BYTES];
        struct tt_frame frame = draw_frame(&prng, written), back;
        size_t length = tt_frame_bytes(frame.count), used;
        tt_frame_write(&frame, bytes);
        struct tt_error why;
        size_t cut = tt_prng_below(&prng, length);
        assert_int_equal(tt_frame_read(bytes, cut, read, &back, &used, &why), TT_OK);
        assert_int_equal(used, 0);
        assert_int_equal(tt_frame_read(bytes, BYTES, read, &back, &used, &why), TT_OK);
        assert_int_equal(used, length);
        assert_int_equal(back.type, frame.type);
        assert_int_equal(back.count, frame.count);
        assert_true(back.epoch == frame.epoch);
        for (int32_t r = 0; r < frame.count; r++)
            assert_memory_equal(&written[r], &read[r], sizeof(written[r]));
    }
}

static void refused(const uint8_t *bytes, size_t length, const char *says) {
    static struct tt_frame_record records[TT_FRAME_MAX_RECORDS];
    struct tt_frame frame;
    struct tt_error why;
    size_t used;
    assert_int_equal(tt_frame_read(bytes, length, records, &frame, &used, &why), TT_ERR_INVALID);
    if (!strstr(why.text, says))
        print_message("'%s' lacks '%s'\n", why.text, says);
    assert_non_null(strstr(why.text, says));
}

static void damage_is_named(void **state) {
    (void)state;
    struct tt_frame_record records[2] = {{.id = 1}, {.id = 2}};
    struct tt_frame frame = {.type = TT_FRAME_GRANT, .count = 2, .epoch = 5, .records = records};
    uint8_t bytes[BYTES];
    tt_frame_write(&frame, bytes);
    size_t length = tt_frame_bytes(2);
    bytes[4] = 200;
    refused(bytes, length, "type 200; types are 1 to");
    bytes[4] = TT_FRAME_GRANT;
    bytes[6] = 1;
    refused(bytes, length, "GRANT has 1 records; it may have 2 to 4097");
    bytes[6] = 2;
    bytes[0] ^= 1;
    refused(bytes, length, "claims 81 bytes; it would have 80");
    bytes[0] ^= 1;
    bytes[TT_FRAME_HEAD_BYTES + 15] = 0x80;
    refused(bytes, length, "negative duration");
}

/* Fields that are nearly right reach further than random ones. */
static void make_plausible(struct tt_prng *prng, struct tt_frame_record *record) {
    if (tt_prng_below(prng, 4))
        record->model = (uint16_t)tt_prng_below(prng, WORLD_MODELS + 1);
    if (tt_prng_below(prng, 4))
        record->rows = (uint16_t)tt_prng_below(prng, 34);
    if (tt_prng_below(prng, 4))
        record->node = (uint16_t)tt_prng_below(prng, WORLD_NODES + 1);
    if (tt_prng_below(prng, 4))
        record->device = (uint16_t)tt_prng_below(prng, 3);
    if (tt_prng_below(prng, 4))
        record->id = tt_prng_below(prng, 8);
    if (tt_prng_below(prng, 4))
        record->attempt = (uint16_t)tt_prng_below(prng, 4);
    if (tt_prng_below(prng, 2))
        record->duration_ns = (int64_t)tt_prng_below(prng, 100 * TT_MS);
    if (tt_prng_below(prng, 2))
        record->length = 0;
}

static void no_answer(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)context;
    (void)user;
    (void)answer;
    (void)reason;
}

struct runs {
    int32_t device;
    bool is_running[2];
};

static void start(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    (void)now;
    struct runs *self = context;
    assert_false(self->is_running[device]);
    assert_true(plan->count > 0);
    self->is_running[device] = true;
}

static void forget_epoch(void *context, int64_t now, uint64_t epoch) {
    (void)context;
    (void)now;
    (void)epoch;
}

static void roles_survive_any_record(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    static struct tt_frame_record records[MAX_DRAWN];
    for (uint64_t seed = test_seed(1), end = seed + 20; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct tt_frontend frontend;
        struct tt_backend backend;
        struct tt_scheduler_role scheduler;
        struct runs runs = {0};
        struct tt_error why;
        assert_int_equal(tt_frontend_init(&frontend, &world.settings, 2, 1, 0), TT_OK);
        assert_int_equal(tt_backend_init(&backend, &world.settings, 4), TT_OK);
        assert_int_equal(
            tt_scheduler_role_init(&scheduler, &world.settings, 0, 0, &world.policy, &why), TT_OK);
        frontend.answered = no_answer;
        backend.run = start;
        backend.context = &runs;
        scheduler.record = forget_epoch;
        for (uint16_t i = 1; i < WORLD_NODES; i++)
            tt_scheduler_role_link(&scheduler, 0, i, TT_LINK_UP);
        for (int64_t now = 0, i = 0; i < TRIALS; i++) {
            now += (int64_t)tt_prng_below(&prng, TT_MS);
            struct tt_frame frame = draw_frame(&prng, records);
            for (int32_t r = 0; r < frame.count; r++)
                make_plausible(&prng, &records[r]);
            uint64_t epochs[] = {frontend.primary.epoch, backend.primary.epoch,
                                 scheduler.primary.epoch, tt_epoch(tt_prng_below(&prng, 9), 0),
                                 frame.epoch};
            frame.epoch = epochs[tt_prng_below(&prng, i % 100 ? 4 : 5)];
            uint16_t from = (uint16_t)tt_prng_below(&prng, WORLD_NODES);
            struct tt_frontend_submission one = {
                .rows = 1, .deadline_at = now + (int64_t)tt_prng_below(&prng, 9 * TT_MS)};
            uint64_t id;
            enum tt_err err = tt_frontend_submit(&frontend, now, &one, &id);
            assert_true(err == TT_OK || err == TT_ERR_UNAVAILABLE || err == TT_ERR_BUSY);
            if (from != 2)
                tt_frontend_receive(&frontend, now, from, &frame);
            if (from != 4)
                tt_backend_receive(&backend, now, from, &frame);
            if (from != 0)
                tt_scheduler_role_receive(&scheduler, now, from, &frame);
            for (int32_t d = 0; d < 2; d++)
                if (runs.is_running[d] && tt_prng_below(&prng, 3) == 0) {
                    runs.is_running[d] = false;
                    tt_backend_ran(&backend, now, d, true);
                }
            tt_frontend_tick(&frontend, now);
            tt_backend_tick(&backend, now);
            tt_scheduler_role_tick(&scheduler, now);
            tt_frontend_check(&frontend);
            tt_backend_check(&backend);
            tt_scheduler_role_check(&scheduler);
            tt_outbox_clear(&frontend.outbox);
            tt_outbox_clear(&backend.outbox);
            tt_outbox_clear(&scheduler.outbox);
        }
        tt_frontend_fini(&frontend);
        tt_backend_fini(&backend);
        tt_scheduler_role_fini(&scheduler);
    }
    virtual_world_fini(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_survive_the_codec),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(roles_survive_any_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
