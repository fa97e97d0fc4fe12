#include "lab/closed_form/bound.h"

#include "base/instant.h"

enum { HALVINGS = 60 };

static int32_t largest_batch(const struct tt_scenario_model *model, int64_t budget_ns) {
    int32_t b = tt_profile_largest_batch(model->step_model.whole, budget_ns, model->length,
                                         model->step_model.max_batch);
    return b > model->rows ? b : model->rows;
}

static double seconds_per_row(const struct tt_scenario_model *model, int32_t batch) {
    return (double)tt_profile_latency(model->step_model.whole, batch, model->length) / 1e9 / batch;
}

/* The largest b >= rows with b / r + l(b) <= SLO, by bisection: the sum grows with b. */
static int32_t staggered_batch(const struct tt_scenario_model *model, double rows_per_s) {
    int32_t low = model->rows, high = largest_batch(model, model->step_model.slo_ns);
    while (low < high) {
        int32_t b = low + (high - low + 1) / 2;
        double took_s = b / rows_per_s + seconds_per_row(model, b) * b;
        if (took_s <= (double)model->step_model.slo_ns / 1e9)
            low = b;
        else
            high = b - 1;
    }
    return low;
}

static double weight_sum(const struct tt_scenario *scenario) {
    double sum = 0;
    for (int32_t m = 0; m < scenario->model_count; m++)
        sum += (double)scenario->models[m].weight;
    return sum;
}

/* The number of devices that `rate` needs; a model's share of the rate is its weight. */
static double devices_needed(const struct tt_scenario *scenario, double rate, double weights) {
    double needed = 0;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        double rows_per_s = rate * (double)model->weight / weights * model->rows;
        if (rows_per_s > 0)
            needed += rows_per_s * seconds_per_row(model, staggered_batch(model, rows_per_s));
    }
    return needed;
}

struct tt_bound tt_bound_of(const struct tt_scenario *scenario) {
    struct tt_bound out = {0};
    double devices = scenario->device_count, weights = weight_sum(scenario);
    double alone = 0; /* device seconds per request without coordination */
    double high = 0;  /* device seconds per request with the largest batches */
    if (weights <= 0 || scenario->arrivals_path || scenario->inside.policy)
        return out;
    for (int32_t d = 0; d < scenario->device_count; d++)
        if (scenario->devices[d].executors != 1)
            return out;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        int64_t slo_ns = model->step_model.slo_ns;
        if (slo_ns == TT_NEVER)
            return out;
        double share = (double)model->weight / weights * model->rows;
        alone += share * seconds_per_row(model, largest_batch(model, slo_ns / 2));
        high += share * seconds_per_row(model, largest_batch(model, slo_ns));
    }
    out.uncoordinated_per_s = devices / alone;
    double low = 0;
    high = devices / high * 1.001;
    for (int32_t i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (devices_needed(scenario, middle, weights) <= devices)
            low = middle;
        else
            high = middle;
    }
    out.staggered_per_s = low;
    return out;
}
