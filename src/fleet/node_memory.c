#include "fleet/node_memory.h"

#include "base/log/log.h"
#include "fleet/memory_exchange.h"
#include "fleet/remote_memory.h"

static enum tt_cluster_role role_of(const struct tt_node_memory *self, uint16_t number) {
    return self->agreement.options.file->places[number].role;
}

/* ---- life ---- */

enum tt_err tt_node_memory_open(struct tt_node_memory *self, uv_loop_t *loop,
                                const struct tt_node_memory_options *options,
                                struct tt_error *why) {
    *self = (struct tt_node_memory){.agreement = {.options = *options}};
    if (options->use == TT_MEMORY_OFF || role_of(self, options->number) == TT_ROLE_SCHEDULER)
        return TT_OK;
    enum tt_err err = tt_memory_agreement_init(&self->agreement, options, why);
    if (!err && options->ucx)
        err = tt_remote_memory_open(&self->agreement, &self->inputs, loop, &self->remote, why);
    else if (!err)
        err = tt_memory_exchange_open(&self->agreement, loop, &self->exchange, why);
    if (!err || err == TT_ERR_NO_MEMORY || options->ucx || options->use == TT_MEMORY_REQUIRED)
        return err;
    tt_log_write(options->log, TT_LOG_WARNING, NULL, "cluster: no memory is shared: %s", why->text);
    return TT_OK;
}

void tt_node_memory_close(struct tt_node_memory *self) {
    if (self->exchange)
        tt_memory_exchange_close(self->exchange);
    if (self->remote)
        tt_remote_memory_close(self->remote);
}

void tt_node_memory_fini(struct tt_node_memory *self) {
    tt_memory_exchange_free(self->exchange);
    tt_remote_memory_free(self->remote);
    self->exchange = NULL;
    self->remote = NULL;
    tt_memory_agreement_fini(&self->agreement);
}

void tt_node_memory_link(struct tt_node_memory *self, uint16_t peer, bool is_up) {
    if (!self->agreement.peers || role_of(self, peer) == TT_ROLE_SCHEDULER)
        return;
    tt_memory_agreement_link(&self->agreement, peer, is_up);
    if (self->remote && role_of(self, peer) != role_of(self, self->agreement.options.number))
        tt_remote_memory_link(self->remote, peer, is_up);

    if (self->exchange && role_of(self, peer) == TT_ROLE_BACKEND)
        tt_memory_exchange_link(self->exchange, peer, is_up);
}

void tt_node_memory_receive(struct tt_node_memory *self, uint16_t peer, const uint8_t *payload,
                            size_t bytes) {
    if (self->remote)
        tt_remote_memory_receive(self->remote, peer, payload, bytes);
}

bool tt_node_memory_rest(struct tt_node_memory *self) {
    return !self->remote || tt_remote_memory_rest(self->remote);
}

bool tt_node_memory_lacks(const struct tt_node_memory *self) {
    const struct tt_memory_agreement *agreement = &self->agreement;
    bool lacks = false;
    if (agreement->options.use != TT_MEMORY_REQUIRED)
        return false;
    for (int32_t i = 0; agreement->peers && i < agreement->options.file->count; i++)
        lacks |= agreement->peers[i].is_linked && !agreement->peers[i].is_shared;
    return lacks;
}

/* ---- a frontend ---- */

uint8_t *tt_node_memory_reserve(struct tt_node_memory *self, uint64_t id, size_t bytes) {
    if (self->agreement.shared == 0 || !self->agreement.board.region.bytes)
        return NULL;
    return tt_input_board_reserve(&self->agreement.board, id, bytes);
}

void tt_node_memory_publish(struct tt_node_memory *self, uint64_t id, size_t bytes) {
    tt_input_board_publish(&self->agreement.board, id, bytes);
}

void tt_node_memory_withdraw(struct tt_node_memory *self, uint64_t id) {
    if (self->agreement.board.region.bytes)
        tt_input_board_withdraw(&self->agreement.board, id);
}

const uint8_t *tt_node_memory_result(struct tt_node_memory *self, uint16_t peer,
                                     const struct tt_frame_record *record) {
    if (!self->agreement.peers || record->duration_ns < 1)
        return NULL;
    self->results++;
    return tt_result_reader_take(&self->agreement.peers[peer].results,
                                 (uint64_t)record->duration_ns - 1, record->length);
}

void tt_node_memory_taken(struct tt_node_memory *self, uint16_t peer) {
    if (self->agreement.peers)
        tt_result_reader_done(&self->agreement.peers[peer].results);
}

/* ---- a backend ---- */

const uint8_t *tt_node_memory_input(const struct tt_node_memory *self, uint16_t peer, uint64_t id,
                                    size_t *out_bytes) {
    if (!self->agreement.peers || !self->agreement.peers[peer].is_shared)
        return NULL;
    return tt_input_reader_find(&self->agreement.peers[peer].inputs, id, out_bytes);
}

bool tt_node_memory_has_input(struct tt_node_memory *self, uint16_t peer, uint64_t id) {
    bool has = tt_input_reader_is_still(&self->agreement.peers[peer].inputs, id);
    self->inputs += has;
    return has;
}

bool tt_node_memory_fetch(struct tt_node_memory *self, uint16_t peer, uint64_t id,
                          uint16_t attempt) {
    return self->remote && tt_remote_memory_fetch(self->remote, peer, id, attempt);
}

bool tt_node_memory_is_remote(const struct tt_node_memory *self, uint16_t peer) {
    return self->remote && self->agreement.peers[peer].is_shared;
}

uint8_t *tt_node_memory_stage(struct tt_node_memory *self, uint16_t peer, size_t bytes) {
    uint8_t *room = self->remote ? tt_remote_memory_stage(self->remote, peer, bytes) : NULL;
    self->results += room != NULL;
    return room;
}

void tt_node_memory_push(struct tt_node_memory *self, uint16_t peer, uint64_t epoch,
                         const struct tt_frame_record *record) {
    tt_remote_memory_push(self->remote, peer, epoch, record);
}

uint8_t *tt_node_memory_room(struct tt_node_memory *self, uint16_t peer, size_t bytes,
                             int64_t *out_duration) {
    uint64_t place;
    uint8_t *room =
        self->agreement.peers && self->agreement.peers[peer].is_shared
            ? tt_result_writer_reserve(&self->agreement.peers[peer].writer, bytes, &place)
            : NULL;
    if (!room)
        return NULL;
    *out_duration = (int64_t)place + 1;
    self->results++;
    return room;
}
