/* How a frontend and a backend agree that the backend reaches the frontend's memory through UCX,
 * and the proof that it does so without the frontend's help. */
#include "base/log/log.h"
#include "fleet/remote_session.h"

#include <stdlib.h>
#include <string.h>

/* A backend's, until the first read and the frontend's answer; a probe. A frontend's: how long it
 * holds still at most; until it offers again after a failure. */
enum { CONNECT_MS = 10000, PROBE_MS = 300, HOLD_MS = 2000, MAX_WAIT_MS = 60000 };

static void complain(const struct tt_remote_memory *self, uint16_t peer, const char *reason) {
    tt_log_limited(tt_remote_options(self)->log, TT_LOG_WARNING, NULL,
                   "cluster: %s: tensors take TCP, not UCX: %s",
                   tt_remote_options(self)->file->places[peer].name, reason);
}

static bool say(struct tt_remote_memory *self, uint16_t peer,
                const struct tt_remote_message *message) {
    const struct tt_node_memory_options *options = tt_remote_options(self);
    const uint8_t *session = options->session(options->context, peer);
    size_t bytes = tt_remote_message_bytes(message);
    const struct tt_frame_record record = {.length = (uint32_t)bytes};
    const struct tt_frame frame = {.type = TT_FRAME_REMOTE, .count = 1, .records = &record};
    uint8_t *out = session ? options->send(options->context, peer, &frame, bytes) : NULL;
    if (out)
        tt_remote_message_write(message, session, out);
    return out != NULL;
}

static void say_kind(struct tt_remote_memory *self, uint16_t peer, enum tt_remote_kind kind,
                     uint32_t serial) {
    say(self, peer, &(struct tt_remote_message){.kind = kind, .serial = serial});
}

/* What it brings is taken in before the loop waits again. */
static void on_events(uv_poll_t *poll, int status, int events) {
    (void)poll;
    (void)status;
    (void)events;
}

void tt_remote_hold(struct tt_remote_memory *self, bool is_held) {
    tt_ucx_hold(&self->ucx, is_held);
    if (is_held)
        uv_poll_stop(&self->events); /* they would wake the loop again and again */
    else
        uv_poll_start(&self->events, UV_READABLE, on_events);
}

/* ---- a frontend ---- */

static void release(struct tt_remote_memory *self, uint16_t backend) {
    bool is_held = false;
    self->offers[backend].held_until_ms = 0;
    for (int32_t i = 0; i < tt_remote_options(self)->file->count; i++)
        is_held |= self->offers[i].held_until_ms > 0;
    tt_remote_hold(self, is_held);
}

void tt_remote_withdraw_offer(struct tt_remote_memory *self, uint16_t backend) {
    struct tt_remote_offer *offer = &self->offers[backend];
    release(self, backend);
    tt_memory_agreement_forget(self->agreement, backend);
    if (offer->is_made)
        offer->room->rests_until_ms = uv_now(self->loop) + self->rest_ms;
    offer->is_made = false;
}

/* The one that has rested longest; NULL: all still rest. */
static struct tt_remote_room *find_room(struct tt_remote_memory *self,
                                        struct tt_remote_offer *offer) {
    struct tt_remote_room *room = &offer->rooms[0];
    for (int32_t i = 1; i < TT_REMOTE_ROOMS; i++)
        if (offer->rooms[i].rests_until_ms < room->rests_until_ms)
            room = &offer->rooms[i];
    return room->rests_until_ms <= uv_now(self->loop) ? room : NULL;
}

static enum tt_err make_offer(struct tt_remote_memory *self, uint16_t backend,
                              struct tt_error *why) {
    struct tt_remote_offer *offer = &self->offers[backend];
    struct tt_ucx_region *results = &offer->room->region;
    enum tt_err err = results->bytes
                          ? TT_OK
                          : tt_ucx_region_new(&self->ucx, TT_REMOTE_RESULT_BYTES, results, why);
    if (err)
        return err;
    memset(results->bytes, 0, TT_RESULT_RING_HEAD_BYTES);
    offer->is_made = true;
    offer->serial = ++self->serial;
    const struct tt_remote_message message = {
        .kind = TT_REMOTE_OFFER,
        .serial = offer->serial,
        .entries = self->agreement->board.entry_count,
        .input_at = (uintptr_t)self->inputs.bytes,
        .input_bytes = self->inputs.size,
        .result_at = (uintptr_t)results->bytes,
        .result_bytes = results->size,
        .parts = {self->ucx.address, self->inputs.key, results->key},
        .part_bytes = {self->ucx.address_bytes, self->inputs.key_bytes, results->key_bytes}};
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++)
        if (message.part_bytes[i] > TT_REMOTE_PART_MAX_BYTES)
            return tt_fail(TT_ERR_UNSUPPORTED, why, "an address or key of UCX has %zu bytes",
                           message.part_bytes[i]);
    say(self, backend, &message);
    return TT_OK;
}

void tt_remote_make_offer(struct tt_remote_memory *self, uint16_t backend) {
    const struct tt_node_memory_options *options = tt_remote_options(self);
    struct tt_error why;
    struct tt_remote_offer *offer = &self->offers[backend];
    offer->next_ms = 0;
    offer->room = find_room(self, offer);
    if (!offer->room)
        offer->next_ms = uv_now(self->loop) + self->retry_ms;
    else if (!(options->abilities(options->context, backend) & TT_ABILITY_REMOTE))
        complain(self, backend, "it does not use UCX");
    else if (make_offer(self, backend, &why)) {
        tt_remote_withdraw_offer(self, backend);
        complain(self, backend, why.text);
    }
}

static void agreed(struct tt_remote_memory *self, uint16_t backend) {
    struct tt_remote_offer *offer = &self->offers[backend];
    struct tt_memory_region region =
        tt_memory_region_borrow(offer->room->region.bytes, offer->room->region.size);
    release(self, backend);
    offer->was_shared = true;
    offer->wait_ms = 0;
    tt_result_reader_init_in(&self->agreement->peers[backend].results, &region);
    tt_memory_agreement_share(self->agreement, backend);
}

/* Lanes stay as they are, so a refusal stands until the link is another one; a failure passes. */
static void refused(struct tt_remote_memory *self, uint16_t backend,
                    const struct tt_remote_message *message) {
    struct tt_remote_offer *offer = &self->offers[backend];
    char reason[256];
    size_t bytes = message->part_bytes[0];
    size_t count = bytes < sizeof(reason) - 1 ? bytes : sizeof(reason) - 1;
    for (size_t i = 0; i < count; i++) /* it goes into the log */
        reason[i] =
            (char)(message->parts[0][i] < ' ' || message->parts[0][i] > '~' ? '?'
                                                                            : message->parts[0][i]);
    reason[count] = '\0';
    tt_remote_withdraw_offer(self, backend);
    complain(self, backend, reason);
    if (!offer->was_shared)
        return;
    offer->wait_ms = offer->wait_ms ? 2 * offer->wait_ms : self->retry_ms;
    if (offer->wait_ms > MAX_WAIT_MS)
        offer->wait_ms = MAX_WAIT_MS;
    offer->next_ms = uv_now(self->loop) + offer->wait_ms;
}

static void receive_of_backend(struct tt_remote_memory *self, uint16_t backend,
                               const struct tt_remote_message *message) {
    struct tt_remote_offer *offer = &self->offers[backend];
    if (!offer->is_made || offer->serial != message->serial)
        return; /* about an earlier one */
    bool is_shared = self->agreement->peers[backend].is_shared;
    if (message->kind == TT_REMOTE_HOLD && !is_shared) {
        offer->held_until_ms = uv_now(self->loop) + HOLD_MS;
        tt_remote_hold(self, true);
        say_kind(self, backend, TT_REMOTE_HELD, offer->serial);
    } else if (message->kind == TT_REMOTE_ACCEPTED && !is_shared) {
        agreed(self, backend);
    } else if (message->kind == TT_REMOTE_REFUSED) {
        refused(self, backend, message);
    }
}

/* ---- a backend ---- */

static void on_gone(void *context) {
    struct tt_remote_session *self = context;
    struct tt_ucx *ucx = &self->owner->ucx;
    tt_list_remove(&self->node);
    tt_remote_push_close(self);
    tt_ucx_key_free(ucx, self->input_key);
    tt_ucx_key_free(ucx, self->result_key);
    free(self);
}

void tt_remote_session_end(struct tt_remote_session *self) {
    tt_assert(self->state != TT_REMOTE_ENDING);
    self->state = TT_REMOTE_ENDING;
    if (self->owner->sessions[self->frontend] == self)
        self->owner->sessions[self->frontend] = NULL;
    if (self->endpoint)
        tt_ucx_endpoint_close(self->endpoint, on_gone, self);
    else
        on_gone(self);
}

static void say_refused(struct tt_remote_memory *self, uint16_t frontend, uint32_t serial,
                        const char *reason) {
    size_t bytes = strlen(reason);
    say(self, frontend,
        &(struct tt_remote_message){
            .kind = TT_REMOTE_REFUSED,
            .serial = serial,
            .parts = {(const uint8_t *)reason},
            .part_bytes = {bytes < TT_REMOTE_PART_MAX_BYTES ? bytes : TT_REMOTE_PART_MAX_BYTES}});
    complain(self, frontend, reason);
}

void tt_remote_fail(struct tt_remote_session *self, const char *reason) {
    bool was_agreed = self->state == TT_REMOTE_AGREED;
    if (was_agreed)
        tt_remote_push_give_up(self);
    say_refused(self->owner, self->frontend, self->serial, reason);
    if (was_agreed)
        tt_memory_agreement_forget(self->owner->agreement, self->frontend);
    tt_remote_session_end(self);
}

static void accept_session(struct tt_remote_session *self) {
    struct tt_remote_memory *owner = self->owner;
    struct tt_text lanes;
    tt_text_init(&lanes);
    tt_ucx_endpoint_lanes(self->endpoint, &lanes);
    tt_log_limited(tt_remote_options(owner)->log, TT_LOG_INFO, NULL,
                   "cluster: UCX reaches memory of %s by %s%s",
                   tt_remote_options(owner)->file->places[self->frontend].name,
                   tt_text_string(&lanes), self->is_one_sided ? "" : ", which may be emulated");
    tt_text_fini(&lanes);
    self->state = TT_REMOTE_AGREED;
    say_kind(owner, self->frontend, TT_REMOTE_ACCEPTED, self->serial);
    tt_memory_agreement_share(owner->agreement, self->frontend);
}

static void refuse_emulated(struct tt_remote_session *self) {
    struct tt_text reason;
    tt_text_init(&reason);
    tt_ucx_endpoint_lanes(self->endpoint, &reason);
    tt_text_puts(&reason, ": these lanes are emulated, which --cluster-ucx emulated allows");
    tt_remote_fail(self, tt_text_string(&reason));
    tt_text_fini(&reason);
}

/* A read of the ring's head has ended. */
static void on_looked(struct tt_ucx_operation *look, bool is_done) {
    struct tt_remote_session *self = TT_CONTAINER_OF(look, struct tt_remote_session, look);
    struct tt_remote_memory *owner = self->owner;
    self->is_looking = false;
    if (self->state == TT_REMOTE_ENDING)
        return;
    if (!is_done) {
        tt_remote_fail(self, "the first read of its memory failed");
    } else if (self->state == TT_REMOTE_CONNECTING && tt_remote_options(owner)->accepts_emulated) {
        accept_session(self);
    } else if (self->state == TT_REMOTE_CONNECTING) {
        self->state = TT_REMOTE_ASKING;
        self->until_ms = uv_now(owner->loop) + CONNECT_MS;
        say_kind(owner, self->frontend, TT_REMOTE_HOLD, self->serial);
    } else if (self->state == TT_REMOTE_PROBING) {
        self->is_one_sided = true;
        accept_session(self);
    }
}

static enum tt_err connect_session(struct tt_remote_session *self,
                                   const struct tt_remote_message *message, struct tt_error *why) {
    struct tt_ucx *ucx = &self->owner->ucx;
    if (message->result_bytes > TT_REMOTE_RESULT_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "it offers %llu bytes for results; %d are the most",
                       (unsigned long long)message->result_bytes, TT_REMOTE_RESULT_BYTES);
    enum tt_err err = tt_ucx_connect(ucx, message->parts[TT_REMOTE_ADDRESS], &self->endpoint, why);
    if (!err)
        err = tt_ucx_key_unpack(self->endpoint, message->parts[TT_REMOTE_INPUT_KEY],
                                &self->input_key, why);
    if (!err)
        err = tt_ucx_key_unpack(self->endpoint, message->parts[TT_REMOTE_RESULT_KEY],
                                &self->result_key, why);
    return err ? err : tt_remote_push_open(self, (size_t)message->result_bytes, why);
}

static void take_offer(struct tt_remote_memory *self, uint16_t frontend,
                       const struct tt_remote_message *message) {
    struct tt_error why;
    if (self->sessions[frontend]) {
        tt_memory_agreement_forget(self->agreement, frontend);
        tt_remote_session_end(self->sessions[frontend]);
    }
    struct tt_remote_session *session = calloc(1, sizeof(*session));
    if (!session) {
        say_refused(self, frontend, message->serial, "out of memory");
        return;
    }
    *session = (struct tt_remote_session){.owner = self,
                                          .frontend = frontend,
                                          .serial = message->serial,
                                          .until_ms = uv_now(self->loop) + CONNECT_MS,
                                          .entries = message->entries,
                                          .input_at = message->input_at,
                                          .input_bytes = message->input_bytes,
                                          .result_at = message->result_at};
    tt_list_push_back(&self->all, &session->node);
    self->sessions[frontend] = session;
    if (connect_session(session, message, &why)) {
        say_refused(self, frontend, message->serial, why.text);
        tt_remote_session_end(session);
        return;
    }
    tt_remote_look(session, on_looked);
}

static void receive_of_frontend(struct tt_remote_memory *self, uint16_t frontend,
                                const struct tt_remote_message *message) {
    struct tt_remote_session *session = self->sessions[frontend];
    if (message->kind == TT_REMOTE_OFFER) {
        take_offer(self, frontend, message);
    } else if (message->kind == TT_REMOTE_HELD && session && session->serial == message->serial &&
               session->state == TT_REMOTE_ASKING) {
        session->state = TT_REMOTE_PROBING;
        session->until_ms = uv_now(self->loop) + PROBE_MS;
        tt_remote_look(session, on_looked);
    }
}

/* ---- both ---- */

void tt_remote_memory_receive(struct tt_remote_memory *self, uint16_t peer, const uint8_t *payload,
                              size_t bytes) {
    const struct tt_node_memory_options *options = tt_remote_options(self);
    const uint8_t *key = options->session(options->context, peer);
    enum tt_cluster_role role = options->file->places[peer].role;
    struct tt_remote_message message;
    struct tt_error why;
    if (self->is_closing || !key)
        return;
    if (tt_remote_message_read(payload, bytes, key, &message, &why))
        complain(self, peer, why.text);
    else if (role == TT_ROLE_BACKEND && self->inputs.bytes)
        receive_of_backend(self, peer, &message);
    else if (role == TT_ROLE_FRONTEND && self->fetches)
        receive_of_frontend(self, peer, &message);
}

static void tick_session(struct tt_remote_memory *self, uint16_t frontend, uint64_t now_ms) {
    struct tt_remote_session *session = self->sessions[frontend];
    if (!session || session->state == TT_REMOTE_AGREED || now_ms < session->until_ms)
        return;
    tt_ucx_progress(&self->ucx); /* this thread may have been late itself */
    if (self->sessions[frontend] != session)
        return;
    if (session->state == TT_REMOTE_PROBING)
        refuse_emulated(session);
    else if (session->state != TT_REMOTE_AGREED)
        tt_remote_fail(session, "it does not answer over UCX");
}

void tt_remote_agreement_tick(struct tt_remote_memory *self, uint64_t now_ms) {
    for (int32_t i = 0; i < tt_remote_options(self)->file->count; i++) {
        struct tt_remote_offer *offer = &self->offers[i];
        if (offer->held_until_ms > 0 && now_ms >= offer->held_until_ms)
            release(self, (uint16_t)i);
        if (offer->is_linked && offer->next_ms > 0 && now_ms >= offer->next_ms)
            tt_remote_make_offer(self, (uint16_t)i);
        tick_session(self, (uint16_t)i, now_ms);
    }
}
