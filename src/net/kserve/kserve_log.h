/* The log line about the end of an inference request, the same for every transport. Implemented in
 * kserve_log.c. */
#ifndef TT_NET_KSERVE_KSERVE_LOG_H
#define TT_NET_KSERVE_KSERVE_LOG_H

#include "net/kserve/kserve_request.h"

struct tt_log;

/* Logs failures that are the server's own; with verbose logging, every request. `log` may be NULL.
 */
void tt_kserve_log_end(struct tt_log *log, const struct tt_kserve_request *request,
                       const struct tt_served_model *model, enum tt_err err, const char *why);

#endif
