#include "scale/devices_wanted.h"

#include <math.h>

enum { PSI_STEPS = 20, LEARNING_HALVINGS = 8 };
/* Of growth during the start-up time: what is measured over seconds need not continue for minutes.
 */
static const double most_growth = 1;
static const double forgetting_s = 3600; /* half-life of the feedback */
/* Of its rows, so many a batch keeps that cannot start in time as it is: the others run in the next
 * one. Fewer would cost too much work per row. */
static const double least_kept = 0.5;
/* A factor that exceeds 1 by less is forgotten. */
static const double least_excess = 1e-3;
/* Of the factor, per lesson: a short spike must not double the advice for an hour. */
static const double most_learnt = 1.25;
/* Of the devices that the model wants: where so many do not help, the reason is another one. */
static const double most_reserve = 1.25;

/* What devices meet if batches are `psi` of the largest that are in time. */
struct traffic {
    double work;     /* a */
    double variance; /* v */
    double rows_per_s;
};

static bool is_hopeless(const struct tt_devices_model *model) {
    return model->slo_s > 0 && tt_batch_curve_tail(&model->curve, 1) > model->slo_s;
}

/* The largest batch that gathers and runs within the objective: what it takes grows with its rows,
 * and is linear between the points of the curve. */
static double largest_batch(const struct tt_devices_model *model, double rate) {
    const struct tt_batch_curve *curve = &model->curve;
    if (model->slo_s <= 0)
        return tt_batch_curve_end(curve);
    for (int32_t i = 1; i < curve->count; i++) {
        double from_s = (curve->rows[i - 1] - 1) / rate + curve->tail_s[i - 1];
        double to_s = (curve->rows[i] - 1) / rate + curve->tail_s[i];
        if (to_s > model->slo_s)
            return curve->rows[i - 1] + (curve->rows[i] - curve->rows[i - 1]) *
                                            fmax(model->slo_s - from_s, 0) / (to_s - from_s);
    }
    return tt_batch_curve_end(curve);
}

static double batch_at(const struct tt_devices_model *model, double rate, double psi) {
    return fmax(1, psi * largest_batch(model, rate));
}

static bool counts(const struct tt_devices_model *model) {
    return model->rows_per_s > 0 && !is_hopeless(model);
}

static struct traffic traffic_of(const struct tt_devices_load *load, double scale, double psi) {
    struct traffic sum = {0};
    for (int32_t m = 0; m < load->model_count; m++) {
        const struct tt_devices_model *model = &load->models[m];
        if (!counts(model))
            continue;
        double rate = scale * model->rows_per_s, batch = batch_at(model, rate, psi);
        double row_s = tt_batch_curve_centre(&model->curve, batch) / batch;
        sum.work += rate * row_s;
        sum.variance += rate * row_s * row_s * fmax(model->dispersion, 0.1);
        sum.rows_per_s += rate;
    }
    return sum;
}

/* The share of a model's rows that are lost if delays exceed t with the probability exp(-decay t).
 * A batch first runs fewer rows. Then its rows are late one after another, as they came. */
static double lost_share(const struct tt_devices_model *model, double rate, double batch,
                         double decay) {
    double gather_s = (batch - 1) / rate, kept = fmax(1, least_kept * batch);
    double slack_s = model->slo_s - gather_s - tt_batch_curve_tail(&model->curve, kept);
    double spread = decay * gather_s;
    double of_late = spread > 0 ? -expm1(-spread) / spread : 1;
    return exp(-decay * fmax(slack_s, 0)) * of_late;
}

/* The share of bad rows; `busy`: the probability that all `devices` are busy. */
static double bad_share(const struct tt_devices_load *load, double scale, double psi,
                        const struct traffic *traffic, double devices, double busy) {
    double decay = 2 * (devices - traffic->work) * devices / traffic->variance, bad = 0;
    for (int32_t m = 0; m < load->model_count; m++) {
        const struct tt_devices_model *model = &load->models[m];
        if (!counts(model) || model->slo_s <= 0)
            continue;
        double rate = scale * model->rows_per_s;
        bad +=
            rate / traffic->rows_per_s * lost_share(model, rate, batch_at(model, rate, psi), decay);
    }
    return busy * bad;
}

/* Erlang's C: the probability that all of `devices` (more than `work`) are busy. */
static double all_busy(double work, int32_t devices) {
    double blocked = 1; /* Erlang's B, for 1, 2 ... devices */
    for (int32_t n = 1; n <= devices; n++)
        blocked = work * blocked / (n + work * blocked);
    return blocked / (1 - work / devices * (1 - blocked));
}

/* The fewest devices for batches of `psi`, if they are fewer than `limit`; else `limit`. The bad
 * share falls with each device: the steps double until it is small enough, then bisection. */
static int32_t devices_at(const struct tt_devices_load *load, double scale, double psi,
                          int32_t limit) {
    struct traffic traffic = traffic_of(load, scale, psi);
    int32_t low = traffic.work < limit ? (int32_t)traffic.work + 1 : limit, high = limit;
    for (int32_t stride = 1; low<high; stride = stride> high ? stride : 2 * stride) {
        int32_t middle = low + (high - low) / 2;
        int32_t n = middle - low < stride ? middle : low + stride;
        double busy = all_busy(traffic.work, n);
        if (bad_share(load, scale, psi, &traffic, n, busy) <= TT_DEVICES_BAD_SHARE)
            high = n;
        else
            low = n + 1;
    }
    return high;
}

static int32_t fewest_devices(const struct tt_devices_load *load, double scale) {
    int32_t fewest = TT_DEVICES_MOST;
    for (int32_t i = PSI_STEPS; i > 0; i--)
        fewest = devices_at(load, scale, (double)i / PSI_STEPS, fewest);
    return fewest;
}

/* The relative standard error of the work per second, from what was counted within the window. */
static double rate_error(const struct tt_devices_load *load, const struct traffic *traffic) {
    if (load->window_s <= 0 || traffic->work <= 0)
        return 0;
    return sqrt(traffic->variance / load->window_s) / traffic->work;
}

static double growth_of(const struct tt_devices_load *load) {
    return 1 + fmin(fmax(load->growth_per_s, 0) * load->start_up_s, most_growth);
}

static double factor_of(const struct tt_devices_feedback *feedback) {
    return feedback ? fmax(feedback->factor, 1) : 1;
}

struct tt_devices_wanted tt_devices_wanted(const struct tt_devices_load *load,
                                           const struct tt_devices_feedback *feedback) {
    struct tt_devices_wanted out = {.keep_s = load->start_up_s + load->start_cost_s};
    for (int32_t m = 0; m < load->model_count; m++)
        out.hopeless += is_hopeless(&load->models[m]);
    struct traffic traffic = traffic_of(load, 1, 1);
    out.work = traffic.work;
    out.count = out.fewest = out.most = 1;
    if (traffic.work <= 0)
        return out;
    double grown = growth_of(load), factor = factor_of(feedback);
    double error = out.error = fmin(2 * rate_error(load, &traffic), 1);
    out.count = out.fewest = out.most = fewest_devices(load, grown * factor);
    out.confidence = (1 - error) / factor;
    if (error <= 0)
        return out;
    int32_t fewest = error < 1 ? fewest_devices(load, grown * factor * (1 - error)) : 1;
    int32_t most = fewest_devices(load, grown * factor * (1 + error));
    out.fewest = fewest < out.count ? fewest : out.count;
    out.most = most > out.count ? most : out.count;
    return out;
}

/* The bad share on so many devices with the best batches. */
static double least_bad(const struct tt_devices_load *load, double scale, int32_t devices) {
    double least = 1;
    for (int32_t i = PSI_STEPS; i > 0; i--) {
        double psi = (double)i / PSI_STEPS;
        struct traffic traffic = traffic_of(load, scale, psi);
        if (traffic.work < devices)
            least = fmin(least, bad_share(load, scale, psi, &traffic, devices,
                                          all_busy(traffic.work, devices)));
    }
    return least;
}

/* The factor of the rates with which the model expects the bad share that was seen, and at least
 * more by that share: on large fleets the model expects more bad requests from very little. */
static double learnt(const struct tt_devices_load *load, double factor, int32_t devices,
                     double bad) {
    double low = factor * fmin(1 + bad, most_learnt), high = factor * most_learnt;
    for (int32_t i = 0; i < LEARNING_HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (least_bad(load, middle, devices) < bad)
            low = middle;
        else
            high = middle;
    }
    return high;
}

void tt_devices_feedback_learn(struct tt_devices_feedback *self, const struct tt_devices_load *load,
                               int32_t in_force, double bad, double span_s) {
    tt_assert(in_force >= 1);
    tt_assert(bad >= 0 && bad <= 1);
    double factor = factor_of(self);
    if (bad > TT_DEVICES_BAD_SHARE && in_force < fewest_devices(load, factor))
        return;
    int32_t modelled = fewest_devices(load, 1);
    bool is_full = in_force > modelled && in_force >= most_reserve * modelled;
    if (bad > TT_DEVICES_BAD_SHARE && !is_full) {
        self->factor = learnt(load, factor, in_force, bad);
    } else {
        double left = (factor - 1) * exp2(-span_s / forgetting_s);
        self->factor = left < least_excess ? 1 : 1 + left;
    }
}
