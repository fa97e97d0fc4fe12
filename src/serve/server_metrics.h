/* The part of the metrics page that is not about models: the scheduler, executors, the recording,
 * the process. */
#ifndef TT_SERVE_SERVER_METRICS_H
#define TT_SERVE_SERVER_METRICS_H

#include "serve/serving.h"

void tt_server_metrics(struct tt_serving *serving, struct tt_text *page);

#endif
