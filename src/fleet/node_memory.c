#include "fleet/node_memory.h"

#include "base/log/log.h"
#include "fleet/memory_exchange.h"

#include <stdlib.h>
#include <unistd.h>

/* Of a frontend's inputs, and of the results of each of its backends. Pages that are never used
 * take no memory. */
enum { INPUT_BYTES = 256 << 20, RESULT_BYTES = 64 << 20 };

static enum tt_cluster_role role_of(const struct tt_node_memory *self, uint16_t number) {
    return self->options.file->places[number].role;
}

static const char *name_of(const struct tt_node_memory *self, uint16_t number) {
    return self->options.file->places[number].name;
}

/* ---- life ---- */

static enum tt_err open_parts(struct tt_node_memory *self, uv_loop_t *loop, struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (role_of(self, self->options.number) == TT_ROLE_FRONTEND)
        err = tt_input_board_init(&self->board, self->options.request_limit, INPUT_BYTES, why);
    return err ? err : tt_memory_exchange_open(self, loop, &self->exchange, why);
}

enum tt_err tt_node_memory_open(struct tt_node_memory *self, uv_loop_t *loop,
                                const struct tt_node_memory_options *options,
                                struct tt_error *why) {
    *self = (struct tt_node_memory){.options = *options};
    if (options->use == TT_MEMORY_OFF || role_of(self, options->number) == TT_ROLE_SCHEDULER)
        return TT_OK;
    tt_assert(options->file->count > 0);
    self->peers = calloc((size_t)options->file->count, sizeof(*self->peers));
    if (!self->peers)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = open_parts(self, loop, why);
    if (!err || options->use == TT_MEMORY_REQUIRED)
        return err;
    tt_log_write(options->log, TT_LOG_WARNING, NULL, "cluster: no memory is shared: %s", why->text);
    return TT_OK;
}

void tt_node_memory_close(struct tt_node_memory *self) {
    if (self->exchange)
        tt_memory_exchange_close(self->exchange);
}

static void forget(struct tt_node_memory *self, uint16_t number) {
    struct tt_memory_peer *peer = &self->peers[number];
    self->shared -= peer->is_shared;
    peer->is_shared = false;
    tt_input_reader_fini(&peer->inputs);
    tt_result_writer_fini(&peer->writer);
    tt_result_reader_fini(&peer->results);
}

void tt_node_memory_fini(struct tt_node_memory *self) {
    for (int32_t i = 0; self->peers && i < self->options.file->count; i++)
        forget(self, (uint16_t)i);
    tt_memory_exchange_free(self->exchange);
    tt_input_board_fini(&self->board);
    free(self->peers);
    self->exchange = NULL;
    self->peers = NULL;
}

void tt_node_memory_link(struct tt_node_memory *self, uint16_t peer, bool is_up) {
    if (!self->peers || role_of(self, peer) == TT_ROLE_SCHEDULER)
        return;
    forget(self, peer);
    self->peers[peer].is_linked = is_up;
    if (self->exchange && role_of(self, peer) == TT_ROLE_BACKEND)
        tt_memory_exchange_link(self->exchange, peer, is_up);
}

bool tt_node_memory_lacks(const struct tt_node_memory *self) {
    bool lacks = false;
    if (self->options.use != TT_MEMORY_REQUIRED)
        return false;
    for (int32_t i = 0; self->peers && i < self->options.file->count; i++)
        lacks |= self->peers[i].is_linked && !self->peers[i].is_shared;
    return lacks;
}

/* ---- the agreement ---- */

static void share(struct tt_node_memory *self, uint16_t peer) {
    self->shared += !self->peers[peer].is_shared;
    self->peers[peer].is_shared = true;
    tt_log_limited(self->options.log, TT_LOG_INFO, NULL, "cluster: memory is shared with %s",
                   name_of(self, peer));
}

enum tt_err tt_node_memory_offer(struct tt_node_memory *self, uint16_t backend,
                                 struct tt_memory_message *out_message,
                                 int out_fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    struct tt_memory_peer *peer = &self->peers[backend];
    tt_assert(peer->is_linked && self->board.region.bytes);
    forget(self, backend);
    enum tt_err err = tt_result_reader_init(&peer->results, RESULT_BYTES, why);
    if (err)
        return err;
    out_message->entries = self->board.entry_count;
    out_message->input_bytes = self->board.region.size;
    out_message->result_bytes = peer->results.region.size;
    out_fds[0] = self->board.region.fd;
    out_fds[1] = peer->results.region.fd;
    return TT_OK;
}

void tt_node_memory_agreed(struct tt_node_memory *self, uint16_t backend) {
    tt_assert(self->peers[backend].results.region.bytes != NULL);
    share(self, backend);
}

/* Takes the regions; what was made is ended by the caller if it fails. */
static enum tt_err map_both(struct tt_memory_peer *peer, const struct tt_memory_message *message,
                            const int take_fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    struct tt_memory_region inputs, results;
    enum tt_err err = tt_memory_region_map(&inputs, take_fds[0], message->input_bytes, false, why);
    if (!err)
        err = tt_input_reader_init(&peer->inputs, &inputs, message->entries, why);
    if (err) {
        close(take_fds[1]);
        return err;
    }
    err = tt_memory_region_map(&results, take_fds[1], message->result_bytes, true, why);
    return err ? err : tt_result_writer_init(&peer->writer, &results, message->entries, why);
}

enum tt_err tt_node_memory_accept(struct tt_node_memory *self, uint16_t frontend,
                                  const struct tt_memory_message *message,
                                  const int take_fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    tt_assert(self->peers[frontend].is_linked);
    forget(self, frontend);
    enum tt_err err = map_both(&self->peers[frontend], message, take_fds, why);
    if (err)
        forget(self, frontend);
    else
        share(self, frontend);
    return err;
}

/* ---- a frontend ---- */

uint8_t *tt_node_memory_reserve(struct tt_node_memory *self, uint64_t id, size_t bytes) {
    if (self->shared == 0 || !self->board.region.bytes)
        return NULL;
    return tt_input_board_reserve(&self->board, id, bytes);
}

void tt_node_memory_publish(struct tt_node_memory *self, uint64_t id, size_t bytes) {
    tt_input_board_publish(&self->board, id, bytes);
}

void tt_node_memory_withdraw(struct tt_node_memory *self, uint64_t id) {
    if (self->board.region.bytes)
        tt_input_board_withdraw(&self->board, id);
}

const uint8_t *tt_node_memory_result(struct tt_node_memory *self, uint16_t peer,
                                     const struct tt_frame_record *record) {
    if (!self->peers || record->duration_ns < 1)
        return NULL;
    self->results++;
    return tt_result_reader_take(&self->peers[peer].results, (uint64_t)record->duration_ns - 1,
                                 record->length);
}

void tt_node_memory_taken(struct tt_node_memory *self, uint16_t peer) {
    if (self->peers)
        tt_result_reader_done(&self->peers[peer].results);
}

/* ---- a backend ---- */

const uint8_t *tt_node_memory_input(const struct tt_node_memory *self, uint16_t peer, uint64_t id,
                                    size_t *out_bytes) {
    if (!self->peers || !self->peers[peer].is_shared)
        return NULL;
    return tt_input_reader_find(&self->peers[peer].inputs, id, out_bytes);
}

bool tt_node_memory_has_input(struct tt_node_memory *self, uint16_t peer, uint64_t id) {
    bool has = tt_input_reader_is_still(&self->peers[peer].inputs, id);
    self->inputs += has;
    return has;
}

uint8_t *tt_node_memory_room(struct tt_node_memory *self, uint16_t peer, size_t bytes,
                             int64_t *out_duration) {
    uint64_t place;
    uint8_t *room = self->peers && self->peers[peer].is_shared
                        ? tt_result_writer_reserve(&self->peers[peer].writer, bytes, &place)
                        : NULL;
    if (!room)
        return NULL;
    *out_duration = (int64_t)place + 1;
    self->results++;
    return room;
}
