/* libFuzzer target: any bytes from another node of a cluster. The first byte chooses what reads
 * them: a handshake of either side, tensors of a payload, a notice of a model, or a stream of
 * frames, which a role then receives from each other role in turn, with its invariants checked
 * after every frame. */
/* covers: cluster/frame.c cluster/backend.c cluster/frontend.c cluster/scheduler_role.c
 * fleet/frame_stream.c fleet/handshake.c fleet/model_notice.c fleet/model_numbers.c
 * fleet/tensor_payload.c */
#include "base/instant.h"
#include "cluster/backend.h"
#include "cluster/frontend.h"
#include "cluster/scheduler_role.h"
#include "fleet/frame_stream.h"
#include "fleet/handshake.h"
#include "fleet/model_notice.h"
#include "fleet/model_numbers.h"
#include "fleet/tensor_payload.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SCHEDULER, FRONTEND, BACKEND, NODES, MAX_BATCH = 8, TENSORS = 3, LIMIT = 1 << 16 };

struct world {
    struct tt_cluster_node nodes[NODES];
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    const struct tt_step_model *models[1];
    struct tt_cluster_settings settings;
};

static void world_init(struct world *self) {
    struct tt_error why;
    *self = (struct world){
        .nodes = {{TT_ROLE_SCHEDULER, 0}, {TT_ROLE_FRONTEND, 0}, {TT_ROLE_BACKEND, 2}}};
    enum tt_err err = tt_profile_new_linear(50 * TT_US, TT_MS, MAX_BATCH, &self->profile, &why);
    tt_assert(err == TT_OK);
    self->step = (struct tt_step){.name = "all", .profile = self->profile};
    self->model = (struct tt_step_model){.name = "m",
                                         .step_count = 1,
                                         .steps = &self->step,
                                         .whole = self->profile,
                                         .slo_ns = 50 * TT_MS,
                                         .max_batch = MAX_BATCH};
    self->models[0] = &self->model;
    self->settings = (struct tt_cluster_settings){.node_count = NODES,
                                                  .nodes = self->nodes,
                                                  .model_count = 1,
                                                  .models = self->models,
                                                  .silence_ns = 20 * TT_MS,
                                                  .beat_ns = 2 * TT_MS,
                                                  .ask_ns = 2 * TT_MS,
                                                  .control_ns = TT_MS,
                                                  .overdue_ns = 5 * TT_MS,
                                                  .fetch_ns = 5 * TT_MS,
                                                  .patience_ns = TT_S,
                                                  .grace_ns = 100 * TT_MS,
                                                  .request_limit = 16,
                                                  .depth = 1};
}

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)context;
    (void)user;
    (void)answer;
    (void)reason;
}

static void on_run(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    (void)context;
    (void)now;
    (void)device;
    (void)plan; /* it runs for ever */
}

static void on_record(void *context, int64_t now, uint64_t epoch) {
    (void)context;
    (void)now;
    (void)epoch;
}

struct roles {
    struct tt_scheduler_role scheduler;
    struct tt_frontend frontend;
    struct tt_backend backend;
    struct tt_model_numbers numbers;
};

static void roles_init(struct roles *self, struct world *world) {
    struct tt_error why;
    enum tt_err err = tt_model_numbers_init(&self->numbers, NODES);
    tt_assert(err == TT_OK);
    err = tt_model_numbers_set(&self->numbers, SCHEDULER, 0, 0);
    tt_assert(err == TT_OK);
    static const struct tt_scheduler_policy policy = {.name = "deferred"};
    err = tt_scheduler_role_init(&self->scheduler, &world->settings, SCHEDULER, 0, &policy, &why);
    tt_assert(err == TT_OK);
    err = tt_frontend_init(&self->frontend, &world->settings, FRONTEND, 1, 0);
    tt_assert(err == TT_OK);
    err = tt_backend_init(&self->backend, &world->settings, BACKEND);
    tt_assert(err == TT_OK);
    self->scheduler.record = on_record;
    self->frontend.answered = on_answered;
    self->backend.run = on_run;
    for (uint16_t peer = FRONTEND; peer < NODES; peer++)
        tt_scheduler_role_link(&self->scheduler, 0, peer, TT_LINK_UP);
    tt_scheduler_role_promote(&self->scheduler, TT_MS);
    struct tt_frame claim = {.type = TT_FRAME_CLAIM, .epoch = self->scheduler.primary.epoch};
    tt_frontend_receive(&self->frontend, TT_MS, SCHEDULER, &claim);
    tt_backend_receive(&self->backend, TT_MS, SCHEDULER, &claim);
    for (int32_t i = 0; i < MAX_BATCH; i++) {
        struct tt_frontend_submission submission = {.rows = 1, .deadline_at = TT_S};
        uint64_t id;
        err = tt_frontend_submit(&self->frontend, TT_MS, &submission, &id);
        tt_assert(err == TT_OK);
    }
}

/* The frame comes to every role, from another one, with the numbers of the sender's models. */
static void receive(struct roles *self, int64_t now, struct tt_frame_record *records,
                    struct tt_frame *frame) {
    uint16_t turn = (uint16_t)(frame->count & 1);
    tt_model_numbers_translate(&self->numbers, SCHEDULER, 1, records, frame);
    tt_scheduler_role_receive(&self->scheduler, now, turn ? FRONTEND : BACKEND, frame);
    tt_scheduler_role_tick(&self->scheduler, now);
    tt_frontend_receive(&self->frontend, now, turn ? SCHEDULER : BACKEND, frame);
    tt_frontend_tick(&self->frontend, now);
    tt_backend_receive(&self->backend, now, turn ? SCHEDULER : FRONTEND, frame);
    tt_backend_tick(&self->backend, now);
    tt_scheduler_role_check(&self->scheduler);
    tt_frontend_check(&self->frontend);
    tt_backend_check(&self->backend);
    tt_outbox_clear(&self->scheduler.outbox);
    tt_outbox_clear(&self->frontend.outbox);
    tt_outbox_clear(&self->backend.outbox);
}

static void read_frames(const uint8_t *data, size_t size) {
    static struct tt_frame_record records[TT_FRAME_MAX_RECORDS];
    struct world world;
    struct roles roles;
    struct tt_frame_stream stream;
    struct tt_received received;
    struct tt_error why;
    size_t room;
    world_init(&world);
    roles_init(&roles, &world);
    tt_frame_stream_init(&stream, LIMIT);
    uint8_t *to = tt_frame_stream_room(&stream, size + 1, &room);
    tt_assert(to != NULL);
    memcpy(to, data, size);
    tt_frame_stream_add(&stream, size);
    bool has = true;
    for (int64_t now = 2 * TT_MS; has; now += TT_MS)
        if (tt_frame_stream_next(&stream, records, &received, &has, &why))
            break;
        else if (has)
            receive(&roles, now, records, &received.frame);
    tt_frame_stream_fini(&stream);
    tt_model_numbers_fini(&roles.numbers);
    tt_scheduler_role_fini(&roles.scheduler);
    tt_frontend_fini(&roles.frontend);
    tt_backend_fini(&roles.backend);
    tt_profile_free(world.profile);
}

static void read_handshake(const uint8_t *data, size_t size, bool is_dialer) {
    static const uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES] = "n";
    static const struct tt_cluster_key key = {.count = 0};
    const struct tt_identity own = {.release = {0, 1}, .node = 1};
    struct tt_handshake handshake;
    struct tt_handshake_reply reply;
    struct tt_error why;
    tt_handshake_begin(&handshake, &own, is_dialer, is_dialer ? 0 : TT_CLUSTER_NO_NODE, NODES, &key,
                       nonce, &reply);
    for (size_t used = 1; used > 0 && handshake.state != TT_HANDSHAKE_DONE;
         data += used, size -= used)
        if (tt_handshake_read(&handshake, data, size, &used, &reply, &why))
            break;
}

/* The payload of a notice, whose record is taken from it, too. What was read is written as it was.
 */
static void read_notice(const uint8_t *data, size_t size) {
    struct tt_model_notice notice;
    struct tt_error why;
    struct tt_frame_record record = {.id = size,
                                     .duration_ns = TT_S,
                                     .length = (uint32_t)size,
                                     .model = size > 0 ? data[0] : 0,
                                     .rows = size > 4 ? data[4] : 0,
                                     .code = 1};
    if (tt_model_notice_read(&record, data, size, &notice, &why))
        return;
    tt_profile_check(notice.profile);
    tt_assert(tt_model_notice_bytes(&notice) == size);
    uint8_t *again = malloc(size);
    tt_assert(again != NULL);
    tt_model_notice_write(&notice, again);
    tt_assert(memcmp(again, data, 12) == 0);
    free(again);
    tt_model_notice_fini(&notice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    uint8_t *bytes = malloc(size); /* exactly as many, so that a read beyond the end is seen */
    tt_assert(bytes != NULL);
    size_t count = size - 1;
    memcpy(bytes, data + 1, count);
    struct tt_tensor_view views[TENSORS];
    struct tt_error why;
    enum tt_err err = TT_OK;
    if (data[0] % 5 == 0)
        err = tt_tensors_read(bytes, count, TENSORS, views, &why);
    else if (data[0] % 5 == 1)
        read_frames(bytes, count);
    else if (data[0] % 5 == 4)
        read_notice(bytes, count);
    else
        read_handshake(bytes, count, data[0] % 5 == 2);
    for (int32_t i = 0; data[0] % 5 == 0 && !err && i < TENSORS; i++)
        tt_assert((const uint8_t *)views[i].bytes + views[i].size_bytes <= bytes + count);
    free(bytes);
    return 0;
}
