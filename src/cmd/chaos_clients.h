/* The clients of `tutti chaos`: threads that each send a request after the other and keep account.
 *
 * A request is the first model's, with drawn inputs that never change, so every right answer is the
 * same. What may happen to one that a frontend accepted: answered; refused by a status other than
 * 200; gone with a frontend that was killed meanwhile. What must not happen: lost (no answer in
 * time, or the connection broke although its frontend lived), or wrong (another answer).
 *
 * Life: _open, _start, _stop (waits for the last answers), _account, _close. Implemented in
 * chaos_clients.c. */
#ifndef TT_CMD_CHAOS_CLIENTS_H
#define TT_CMD_CHAOS_CLIENTS_H

#include "base/err.h"

#include <stdint.h>

struct tt_chaos_clients;

struct tt_chaos_account {
    int64_t accepted, answered, refused, gone, lost, wrong;
};

/* `urls`: the frontends; borrowed for life. `give_up_ns`: a request without an answer for so long
 * is lost. Errors: those of the first request, which must be answered. */
TT_MUST_CHECK enum tt_err tt_chaos_clients_open(const char *const *urls, int32_t url_count,
                                                int32_t threads, int64_t give_up_ns, uint64_t seed,
                                                struct tt_chaos_clients **out_clients,
                                                struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_chaos_clients_start(struct tt_chaos_clients *self,
                                                 struct tt_error *why);
/* The frontend with this URL is about to be killed. */
void tt_chaos_clients_killing(struct tt_chaos_clients *self, int32_t url);
void tt_chaos_clients_stop(struct tt_chaos_clients *self);
struct tt_chaos_account tt_chaos_clients_account(const struct tt_chaos_clients *self);
void tt_chaos_clients_close(struct tt_chaos_clients *take_self); /* NULL-safe; stopped */

#endif
