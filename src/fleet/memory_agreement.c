#include "fleet/memory_agreement.h"

#include "base/log/log.h"

#include <stdlib.h>
#include <unistd.h>

/* Of a frontend's inputs, and of the results of each of its backends. Pages that are never used
 * take no memory. */
enum { INPUT_BYTES = 256 << 20, RESULT_BYTES = 64 << 20 };

enum tt_err tt_memory_agreement_init(struct tt_memory_agreement *self,
                                     const struct tt_node_memory_options *options,
                                     struct tt_error *why) {
    *self = (struct tt_memory_agreement){.options = *options};
    tt_assert(options->file->count > 0);
    self->peers = calloc((size_t)options->file->count, sizeof(*self->peers));
    if (!self->peers)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (options->ucx || options->file->places[options->number].role != TT_ROLE_FRONTEND)
        return TT_OK;
    return tt_input_board_init(&self->board, options->request_limit, INPUT_BYTES, why);
}

void tt_memory_agreement_forget(struct tt_memory_agreement *self, uint16_t number) {
    struct tt_memory_peer *peer = &self->peers[number];
    self->shared -= peer->is_shared;
    peer->is_shared = false;
    tt_input_reader_fini(&peer->inputs);
    tt_result_writer_fini(&peer->writer);
    tt_result_reader_fini(&peer->results);
}

void tt_memory_agreement_fini(struct tt_memory_agreement *self) {
    for (int32_t i = 0; self->peers && i < self->options.file->count; i++)
        tt_memory_agreement_forget(self, (uint16_t)i);
    tt_input_board_fini(&self->board);
    free(self->peers);
    self->peers = NULL;
}

void tt_memory_agreement_link(struct tt_memory_agreement *self, uint16_t peer, bool is_up) {
    tt_memory_agreement_forget(self, peer);
    self->peers[peer].is_linked = is_up;
}

void tt_memory_agreement_share(struct tt_memory_agreement *self, uint16_t peer) {
    self->shared += !self->peers[peer].is_shared;
    self->peers[peer].is_shared = true;
    tt_log_limited(self->options.log, TT_LOG_INFO, NULL, "cluster: memory is shared with %s",
                   self->options.file->places[peer].name);
}

enum tt_err tt_memory_agreement_offer(struct tt_memory_agreement *self, uint16_t backend,
                                      struct tt_memory_message *out_message,
                                      int out_fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    struct tt_memory_peer *peer = &self->peers[backend];
    tt_assert(peer->is_linked && self->board.region.bytes);
    tt_memory_agreement_forget(self, backend);
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

void tt_memory_agreement_agreed(struct tt_memory_agreement *self, uint16_t backend) {
    tt_assert(self->peers[backend].results.region.bytes != NULL);
    tt_memory_agreement_share(self, backend);
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

enum tt_err tt_memory_agreement_accept(struct tt_memory_agreement *self, uint16_t frontend,
                                       const struct tt_memory_message *message,
                                       const int take_fds[TT_MEMORY_DESCRIPTORS],
                                       struct tt_error *why) {
    tt_assert(self->peers[frontend].is_linked);
    tt_memory_agreement_forget(self, frontend);
    enum tt_err err = map_both(&self->peers[frontend], message, take_fds, why);
    if (err)
        tt_memory_agreement_forget(self, frontend);
    else
        tt_memory_agreement_share(self, frontend);
    return err;
}
