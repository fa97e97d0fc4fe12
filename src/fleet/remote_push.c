/* A backend's results on their way into the memory of a frontend. */
#include "fleet/remote_session.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS = 64 };

/* ---- life ---- */

enum tt_err tt_remote_push_open(struct tt_remote_session *self, size_t bytes,
                                struct tt_error *why) {
    enum tt_err err = tt_ucx_region_new(&self->owner->ucx, bytes, &self->staging, why);
    if (err)
        return err;
    memset(self->staging.bytes, 0, TT_RESULT_RING_HEAD_BYTES);
    struct tt_memory_region region =
        tt_memory_region_borrow(self->staging.bytes, self->staging.size);
    self->results = calloc((size_t)self->entries, sizeof(*self->results));
    if (!self->results)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for results");
    return tt_result_writer_init(&self->writer, &region, self->entries, why);
}

void tt_remote_push_close(struct tt_remote_session *self) {
    tt_result_writer_fini(&self->writer);
    tt_ucx_region_free(&self->owner->ucx, &self->staging);
    free(self->results);
    self->results = NULL;
}

/* ---- records ---- */

/* *out_room: of the payload, as tt_node_links_send() returns it. */
static void send_records(struct tt_remote_session *self, uint64_t epoch,
                         const struct tt_frame_record *records, int32_t count, size_t bytes,
                         uint8_t **out_room) {
    const struct tt_node_memory_options *options = tt_remote_options(self->owner);
    const struct tt_frame frame = {
        .type = TT_FRAME_RESULT, .count = count, .epoch = epoch, .records = records};
    *out_room = options->send(options->context, self->frontend, &frame, bytes);
}

static struct tt_remote_result *take_oldest(struct tt_remote_session *self) {
    struct tt_remote_result *result = &self->results[self->oldest];
    self->oldest = (self->oldest + 1) % self->entries;
    self->count--;
    self->sent++;
    return result;
}

static bool has_arrived(const struct tt_remote_session *self) {
    return self->count > 0 && self->sent < self->flushed && self->results[self->oldest].is_put;
}

/* In the order of their places: the frontend gives room back in that order. */
static void send_arrived(struct tt_remote_session *self) {
    struct tt_frame_record records[RECORDS];
    while (has_arrived(self)) {
        uint64_t epoch = self->results[self->oldest].epoch;
        int32_t count = 0;
        while (count < RECORDS && has_arrived(self) && self->results[self->oldest].epoch == epoch)
            records[count++] = take_oldest(self)->record;
        uint8_t *none;
        send_records(self, epoch, records, count, 0, &none);
    }
}

void tt_remote_push_give_up(struct tt_remote_session *self) {
    send_arrived(self);
    while (self->count > 0) {
        struct tt_remote_result *result = take_oldest(self);
        result->record.duration_ns = 0; /* the payload follows */
        size_t bytes = result->record.length;
        uint8_t *out;
        send_records(self, result->epoch, &result->record, 1, bytes, &out);
        if (out)
            memcpy(out, result->bytes, bytes);
    }
}

/* ---- operations ---- */

void tt_remote_look(struct tt_remote_session *self,
                    void (*done)(struct tt_ucx_operation *look, bool is_done)) {
    tt_assert(!self->is_looking);
    self->is_looking = true;
    self->look.done = done;
    tt_ucx_get(self->endpoint, &self->look, &self->staging, self->staging.bytes, sizeof(uint64_t),
               self->result_at, self->result_key);
}

/* What the frontend has taken is known now; tt_result_writer_reserve() looks at it. */
static void on_looked(struct tt_ucx_operation *look, bool is_done) {
    struct tt_remote_session *self = TT_CONTAINER_OF(look, struct tt_remote_session, look);
    self->is_looking = false;
    if (!is_done)
        self->failure = "a read of its memory failed";
}

static void on_flushed(struct tt_ucx_operation *flush, bool is_done) {
    struct tt_remote_session *self = TT_CONTAINER_OF(flush, struct tt_remote_session, flush);
    self->is_flushing = false;
    if (self->state == TT_REMOTE_ENDING)
        return;
    if (is_done) {
        self->flushed = self->flushing;
        send_arrived(self);
    } else {
        self->failure = "a write to its memory did not arrive";
    }
}

static void on_put(struct tt_ucx_operation *put, bool is_done) {
    struct tt_remote_result *result = TT_CONTAINER_OF(put, struct tt_remote_result, put);
    struct tt_remote_session *self = result->session;
    result->is_put = is_done;
    if (self->state == TT_REMOTE_ENDING)
        return;
    if (is_done)
        send_arrived(self);
    else
        self->failure = "a write to its memory failed";
}

void tt_remote_push_turn(struct tt_remote_session *self) {
    if (!self->is_flushing && self->put > self->flushing) {
        self->is_flushing = self->wants_look = true;
        self->flushing = self->put;
        self->flush.done = on_flushed;
        tt_ucx_flush(self->endpoint, &self->flush);
    }
    if (self->wants_look && !self->is_looking) {
        self->wants_look = false;
        tt_remote_look(self, on_looked);
    }
}

/* ---- what a node sends ---- */

uint8_t *tt_remote_memory_stage(struct tt_remote_memory *self, uint16_t frontend, size_t bytes) {
    struct tt_remote_session *session = self->sessions[frontend];
    if (!session || session->state != TT_REMOTE_AGREED || session->failure ||
        session->endpoint->is_failed || session->count == session->entries)
        return NULL;
    uint8_t *room = tt_result_writer_reserve(&session->writer, bytes, &session->place);
    session->wants_look |= !room;
    return room;
}

void tt_remote_memory_push(struct tt_remote_memory *self, uint16_t frontend, uint64_t epoch,
                           const struct tt_frame_record *record) {
    struct tt_remote_session *session = self->sessions[frontend];
    struct tt_remote_result *result =
        &session->results[(session->oldest + session->count) % session->entries];
    uint64_t offset = TT_RESULT_RING_HEAD_BYTES + session->place;
    *result = (struct tt_remote_result){.put = {.done = on_put},
                                        .session = session,
                                        .record = *record,
                                        .epoch = epoch,
                                        .bytes = session->staging.bytes + offset};
    result->record.duration_ns = (int64_t)session->place + 1;
    session->count++;
    session->put++;
    tt_ucx_put(session->endpoint, &result->put, &session->staging, result->bytes, record->length,
               session->result_at + offset, session->result_key);
}
