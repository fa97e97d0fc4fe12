/* The file that makes a sweep resumable: one line of JSON per finished point.
 *
 * The first line names what the results belong to: a hash of everything that determines them (the
 * experiment without its sweeps, the files it names, what is computed). Every other line is
 * {"key": ..., "result": ...}, and is on the disk before the next point is processed. The key names
 * the swept values and the seed, so values may be added to a sweep later. An incomplete last line
 * (a crash, a full disk) is removed when the file is opened again. One process at a time: a second
 * one is rejected. It does not interpret keys and results. */
#ifndef TT_LAB_SWEEP_SWEEP_STATE_H
#define TT_LAB_SWEEP_SWEEP_STATE_H

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

struct tt_sweep_state {
    char *path;
    int fd;        /* -1: none */
    json_t *known; /* results by key */
};

/* `kind` names what is computed ("run", "goodput"). Creates the file if it does not exist. Errors:
 * INVALID (of another experiment, or not such a file: file:line), IO (also: in use), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_sweep_state_open(struct tt_sweep_state *self, const char *path,
                                              uint64_t identity, const char *kind,
                                              struct tt_error *why);
void tt_sweep_state_close(struct tt_sweep_state *self);
/* Borrowed; NULL: not known. */
json_t *tt_sweep_state_find(const struct tt_sweep_state *self, const char *key);
/* After an error (IO, NO_MEMORY) the result is not on the disk. */
TT_MUST_CHECK enum tt_err tt_sweep_state_add(struct tt_sweep_state *self, const char *key,
                                             json_t *result, struct tt_error *why);

#endif
