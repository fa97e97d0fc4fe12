/* What the metrics page says of models of cells, by type of cell. */
#ifndef TT_SERVE_CELL_METRICS_H
#define TT_SERVE_CELL_METRICS_H

#include "serve/catalogue.h"

#include "base/text.h"

/* `labels` writes "{" and the model's labels, as all of the page's lines begin them. */
void tt_cell_metrics(const struct tt_catalogue *catalogue, struct tt_text *page,
                     void (*labels)(struct tt_text *page, const struct tt_catalogue_entry *model));

#endif
