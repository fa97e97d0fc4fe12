/* Inputs that a backend reads from the memory of frontends. */
#include "cluster/frontend.h"
#include "fleet/remote_session.h"

#include <stdlib.h>

enum { ENTRY_BYTES = sizeof(struct tt_input_entry), NO_FETCH = -1 };

enum tt_err tt_remote_fetch_open(struct tt_remote_memory *self, struct tt_error *why) {
    size_t entries = (size_t)TT_REMOTE_FETCHES * ENTRY_BYTES;
    self->fetches = calloc(TT_REMOTE_FETCHES, sizeof(*self->fetches));
    if (!self->fetches ||
        tt_extent_ring_init(&self->ring, TT_REMOTE_LANDING_BYTES, TT_REMOTE_FETCHES))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for inputs");
    for (int32_t i = 0; i < TT_REMOTE_FETCHES; i++)
        self->fetches[i].next_free = i + 1 < TT_REMOTE_FETCHES ? i + 1 : NO_FETCH;
    return tt_ucx_region_new(&self->ucx, entries + TT_REMOTE_LANDING_BYTES, &self->landing, why);
}

void tt_remote_fetch_close(struct tt_remote_memory *self) {
    tt_ucx_region_free(&self->ucx, &self->landing);
    tt_extent_ring_fini(&self->ring);
    free(self->fetches);
    self->fetches = NULL;
}

static struct tt_input_entry *entry_of(const struct tt_remote_memory *self,
                                       const struct tt_remote_fetch *fetch) {
    return (struct tt_input_entry *)self->landing.bytes + (fetch - self->fetches);
}

static uint8_t *payload_of(const struct tt_remote_memory *self,
                           const struct tt_remote_fetch *fetch) {
    return self->landing.bytes + (size_t)TT_REMOTE_FETCHES * ENTRY_BYTES + fetch->begin;
}

/* The frontend's entry of the request. */
static void get_entry(struct tt_remote_fetch *fetch, size_t bytes) {
    struct tt_remote_session *session = fetch->session;
    struct tt_remote_memory *self = session->owner;
    uint64_t from = session->input_at + (uint64_t)tt_frontend_index(fetch->id) * ENTRY_BYTES;
    tt_ucx_get(session->endpoint, &fetch->get, &self->landing, entry_of(self, fetch), bytes, from,
               session->input_key);
}

static void finish(struct tt_remote_fetch *fetch, bool is_read) {
    struct tt_remote_session *session = fetch->session;
    struct tt_remote_memory *self = session->owner;
    const struct tt_node_memory_options *options = tt_remote_options(self);
    *self->read += is_read;
    if (!self->is_closing)
        options->fetched(options->context, session->frontend, fetch->id, fetch->attempt,
                         is_read ? payload_of(self, fetch) : NULL, fetch->bytes);
    if (fetch->extent != TT_NO_EXTENT)
        tt_extent_ring_give(&self->ring, fetch->extent);
    fetch->session = NULL;
    fetch->next_free = self->first_free;
    self->first_free = (int32_t)(fetch - self->fetches);
}

/* False: the entry is another one's, or there is no room for what it says. */
static bool get_payload(struct tt_remote_fetch *fetch) {
    struct tt_remote_session *session = fetch->session;
    struct tt_remote_memory *self = session->owner;
    size_t before = tt_input_board_bytes(session->entries, 0), begin;
    if (!tt_input_entry_place(entry_of(self, fetch), fetch->id,
                              (size_t)session->input_bytes - before, &begin, &fetch->bytes) ||
        fetch->bytes == 0)
        return false;
    fetch->extent = tt_extent_ring_take(&self->ring, fetch->bytes, &fetch->begin);
    if (fetch->extent == TT_NO_EXTENT)
        return false;
    tt_ucx_get(session->endpoint, &fetch->get, &self->landing, payload_of(self, fetch),
               fetch->bytes, session->input_at + before + begin, session->input_key);
    return true;
}

static void on_got(struct tt_ucx_operation *get, bool is_done) {
    struct tt_remote_fetch *fetch = TT_CONTAINER_OF(get, struct tt_remote_fetch, get);
    struct tt_remote_session *session = fetch->session;
    if (!is_done || session->state != TT_REMOTE_AGREED) {
        finish(fetch, false);
        return;
    }
    switch (fetch->stage) {
    case TT_FETCH_ENTRY:
        fetch->stage = TT_FETCH_PAYLOAD;
        if (!get_payload(fetch))
            finish(fetch, false);
        return;
    case TT_FETCH_PAYLOAD:
        fetch->stage = TT_FETCH_AGAIN;
        get_entry(fetch, sizeof(uint64_t));
        return;
    case TT_FETCH_AGAIN: break;
    }
    /* Ids are never used twice: what was read between two looks at it is the request's. */
    finish(fetch, tt_shared_word_load(&entry_of(session->owner, fetch)->id) == fetch->id);
}

bool tt_remote_memory_fetch(struct tt_remote_memory *self, uint16_t frontend, uint64_t id,
                            uint16_t attempt) {
    struct tt_remote_session *session = self->sessions[frontend];
    if (!session || session->state != TT_REMOTE_AGREED || session->endpoint->is_failed ||
        tt_frontend_index(id) >= session->entries || self->first_free == NO_FETCH)
        return false;
    struct tt_remote_fetch *fetch = &self->fetches[self->first_free];
    self->first_free = fetch->next_free;
    *fetch = (struct tt_remote_fetch){.get = {.done = on_got},
                                      .session = session,
                                      .id = id,
                                      .stage = TT_FETCH_ENTRY,
                                      .attempt = attempt,
                                      .extent = TT_NO_EXTENT,
                                      .next_free = NO_FETCH};
    get_entry(fetch, ENTRY_BYTES);
    return true;
}
