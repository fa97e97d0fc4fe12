#include "lab/scenario/live_figures.h"

#include "base/processors.h"
#include "profile/machine.h"

#include <stdio.h>
#include <string.h>

struct tt_live_spread tt_live_spread_of(const struct tt_histogram *histogram) {
    struct tt_live_spread spread = {.count = histogram->count};
    if (spread.count == 0)
        return spread;
    spread.mean = tt_histogram_mean(histogram);
    spread.p50 = tt_histogram_quantile(histogram, 1, 2);
    spread.p99 = tt_histogram_quantile(histogram, 99, 100);
    spread.maximum = histogram->maximum;
    return spread;
}

void tt_live_figures_begin(struct tt_live_figures *self) {
    self->is_live = true;
    (void)tt_machine_processor(self->machine, sizeof(self->machine));
    (void)tt_machine_date(self->date, sizeof(self->date));
    self->cores = tt_processors_usable();
}

void tt_live_figures_leave_out(struct tt_live_figures *self, bool applies, const char *what) {
    size_t used = strlen(self->left_out);
    if (applies && !strstr(self->left_out, what))
        snprintf(self->left_out + used, sizeof(self->left_out) - used, "%s%s", used ? ", " : "",
                 what);
}
