#include "fleet/remote_memory.h"

#include "base/log/log.h"
#include "fleet/remote_session.h"

#include <stdlib.h>
#include <string.h>

/* A write of a closed endpoint is under way for a shorter time than a room rests. */
enum {
    TICK_MS = 50,
    REST_MS = 10000,
    RETRY_MS = 1000,
    MAX_CLOSING_ROUNDS = 200000,
    MAX_ROUNDS = 16
};

/* ---- turns ---- */

/* Sessions whose endpoint failed, and results that the turn left. */
static void look_at_sessions(struct tt_remote_memory *self) {
    struct tt_list_node *next;
    for (struct tt_list_node *node = tt_list_first(&self->all); node; node = next) {
        struct tt_remote_session *session = TT_CONTAINER_OF(node, struct tt_remote_session, node);
        next = tt_list_next(&self->all, node);
        if (session->state == TT_REMOTE_ENDING)
            continue;
        if (session->failure || session->endpoint->is_failed)
            tt_remote_fail(session, session->failure ? session->failure : session->endpoint->why);
        else if (session->state == TT_REMOTE_AGREED)
            tt_remote_push_turn(session);
    }
}

bool tt_remote_memory_rest(struct tt_remote_memory *self) {
    if (!self->has_ucx || self->is_closing)
        return true;
    look_at_sessions(self);
    for (int32_t round = 0; round < MAX_ROUNDS; round++) {
        if (tt_ucx_progress(&self->ucx) > 0)
            return false;
        if (tt_ucx_rest(&self->ucx))
            return true;
    }
    return false;
}

static void on_tick(uv_timer_t *timer) {
    struct tt_remote_memory *self = timer->data;
    tt_remote_agreement_tick(self, uv_now(self->loop));
}

void tt_remote_memory_link(struct tt_remote_memory *self, uint16_t peer, bool is_up) {
    if (self->is_closing)
        return;
    if (tt_remote_role(self) == TT_ROLE_BACKEND) {
        if (self->sessions[peer])
            tt_remote_session_end(self->sessions[peer]);
        return;
    }
    tt_remote_withdraw_offer(self, peer);
    self->offers[peer].is_linked = is_up;
    self->offers[peer].was_shared = false;
    self->offers[peer].next_ms = self->offers[peer].wait_ms = 0;
    if (is_up)
        tt_remote_make_offer(self, peer);
}

/* ---- opening and closing ---- */

static enum tt_err open_parts(struct tt_remote_memory *self, struct tt_error *why) {
    const struct tt_node_memory_options *options = tt_remote_options(self);
    size_t count = (size_t)options->file->count;
    enum tt_err err = tt_ucx_open(&self->ucx, options->ucx, why);
    if (err)
        return err;
    self->has_ucx = true;
    self->offers = calloc(count, sizeof(*self->offers));
    self->sessions = calloc(count, sizeof(*self->sessions));
    if (!self->offers || !self->sessions)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (tt_remote_role(self) == TT_ROLE_BACKEND)
        return tt_remote_fetch_open(self, why);
    size_t entries = tt_input_board_bytes(options->request_limit, 0);
    err = tt_ucx_region_new(&self->ucx, entries + TT_REMOTE_INPUT_BYTES, &self->inputs, why);
    if (err)
        return err;
    memset(self->inputs.bytes, 0, entries);
    struct tt_memory_region region = tt_memory_region_borrow(self->inputs.bytes, self->inputs.size);
    return tt_input_board_init_in(&self->agreement->board, options->request_limit, &region, why);
}

enum tt_err tt_remote_memory_open(struct tt_memory_agreement *agreement, int64_t *inputs,
                                  uv_loop_t *loop, struct tt_remote_memory **out_self,
                                  struct tt_error *why) {
    struct tt_remote_memory *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->agreement = agreement;
    self->read = inputs;
    self->loop = loop;
    self->rest_ms = REST_MS;
    self->retry_ms = RETRY_MS;
    tt_list_init(&self->all);
    enum tt_err err = open_parts(self, why);
    if (!err && uv_poll_init(loop, &self->events, self->ucx.fd) < 0)
        err = tt_fail(TT_ERR_IO, why, "cannot watch the events of UCX");
    if (err) {
        self->is_closing = true;
        tt_remote_memory_free(self);
        return err;
    }
    self->has_handles = true;
    uv_timer_init(loop, &self->timer);
    self->timer.data = self;
    uv_timer_start(&self->timer, on_tick, TICK_MS, TICK_MS);
    tt_remote_hold(self, false);
    *out_self = self;
    return TT_OK;
}

void tt_remote_memory_close(struct tt_remote_memory *self) {
    if (self->is_closing)
        return;
    struct tt_list_node *next;
    for (struct tt_list_node *node = tt_list_first(&self->all); node; node = next) {
        struct tt_remote_session *session = TT_CONTAINER_OF(node, struct tt_remote_session, node);
        next = tt_list_next(&self->all, node);
        if (session->state != TT_REMOTE_ENDING)
            tt_remote_session_end(session);
    }
    self->is_closing = true;
    tt_ucx_hold(&self->ucx, false);
    for (int32_t i = 0; i < MAX_CLOSING_ROUNDS && !tt_list_empty(&self->all); i++)
        tt_ucx_progress(&self->ucx);
    uv_close((uv_handle_t *)&self->timer, NULL);
    uv_close((uv_handle_t *)&self->events, NULL);
}

void tt_remote_memory_free(struct tt_remote_memory *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->is_closing);
    int32_t count = tt_remote_options(take_self)->file->count;
    if (take_self->has_ucx)
        tt_ucx_stop(&take_self->ucx);
    for (int32_t i = 0; take_self->offers && i < TT_REMOTE_ROOMS * count; i++)
        tt_ucx_region_free(
            &take_self->ucx,
            &take_self->offers[i / TT_REMOTE_ROOMS].rooms[i % TT_REMOTE_ROOMS].region);
    tt_ucx_region_free(&take_self->ucx, &take_self->inputs);
    tt_remote_fetch_close(take_self);
    if (take_self->has_ucx)
        tt_ucx_close(&take_self->ucx);
    free(take_self->offers);
    free(take_self->sessions);
    free(take_self);
}

void tt_remote_memory_check(const struct tt_remote_memory *self) {
    tt_ucx_check(&self->ucx);
    const struct tt_list_node *node;
    for (node = tt_list_first(&self->all); node; node = tt_list_next(&self->all, node)) {
        const struct tt_remote_session *session =
            TT_CONTAINER_OF(node, const struct tt_remote_session, node);
        if (session->state == TT_REMOTE_ENDING)
            continue;
        tt_assert(self->sessions[session->frontend] == session);
        tt_assert(session->count >= 0 && session->count <= session->entries);
        tt_assert(session->sent <= session->flushed && session->flushed <= session->flushing &&
                  session->flushing <= session->put);
        tt_assert(session->put - session->sent == (uint64_t)session->count);
    }
    int32_t busy = 0;
    for (int32_t i = 0; self->fetches && i < TT_REMOTE_FETCHES; i++)
        busy += self->fetches[i].session && self->fetches[i].extent != TT_NO_EXTENT;
    tt_assert(busy <= self->ring.count);
    if (self->fetches)
        tt_extent_ring_check(&self->ring);
}
