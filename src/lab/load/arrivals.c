#include "lab/load/arrivals.h"

#include "base/fnv.h"
#include "base/instant.h"
#include "base/line.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

enum {
    FINE_BITS = 20, /* positions in time are kept to 2^-20 ns */
    GAPS_AHEAD = 8  /* distance at which kept gaps are fetched */
};
#define RATE_TO_GAP_NS INT64_C(1000000000000000) /* 10^9 ns/s times TT_RATE_ONE */

struct stream {
    struct tt_prng prng, lengths_prng;
    int64_t at;             /* of the next request */
    int64_t fine;           /* fraction of at, 0 .. 2^20 - 1 */
    int64_t gap_fine;       /* mean gap at the current rate, in 2^-20 ns; TT_NEVER: rate 0 */
    int64_t segment_end_at; /* TT_NEVER: the rate stays */
    int64_t count;          /* requests so far */
    int64_t drawn;          /* gaps so far; counted where they are kept */
    int64_t rate, next_step_at_count;
    int32_t segment;
};

struct tt_arrivals {
    struct tt_arrivals_options options;
    struct tt_arrivals_model *models;
    struct stream *streams;
    /* A loser tree over the streams' keys finds the next request. Leaf m is at model_count + m, the
     * match of nodes 2n and 2n + 1 at n. Each match keeps its loser; `first` has won all of them.
     * Only the winner's key changes, so only the matches on its path are replayed: one per level,
     * without an unpredictable branch. */
    unsigned __int128 *losers; /* [2 * model_count] */
    unsigned __int128 first;
    struct tt_draw_tables tables;
    struct tt_draw_gamma gamma;
    int64_t weight_sum;
    int64_t emitted;
};

/* The draws of a stream depend on its model's name. */
static uint64_t hash_name(const char *name) { return tt_fnv_add(TT_FNV_START, name, strlen(name)); }

static int64_t fine_of(unsigned __int128 value) {
    return value > (unsigned __int128)(TT_NEVER - 1) ? TT_NEVER : (int64_t)value;
}

/* The mean gap of the model's stream if all models together have `rate`. */
static int64_t gap_at(const struct tt_arrivals *self, int32_t model, int64_t rate) {
    int64_t weight = self->models[model].weight;
    if (rate <= 0 || weight <= 0)
        return TT_NEVER;
    unsigned __int128 scaled = ((unsigned __int128)RATE_TO_GAP_NS << FINE_BITS) / (uint64_t)rate;
    return fine_of(scaled * (uint64_t)self->weight_sum / (uint64_t)weight);
}

static int64_t first_gap(const struct tt_arrivals *self, int32_t model, int64_t rate) {
    const struct tt_arrivals_options *options = &self->options;
    if (options->interval_ns == 0)
        return gap_at(self, model, rate);
    int64_t weight = self->models[model].weight;
    if (weight <= 0)
        return TT_NEVER;
    unsigned __int128 scaled = (unsigned __int128)options->interval_ns << FINE_BITS;
    return fine_of(scaled * (uint64_t)self->weight_sum / (uint64_t)weight);
}

static int64_t draw(const struct tt_arrivals *self, struct tt_prng *prng) {
    switch (self->options.process) {
    case TT_PROCESS_POISSON: return tt_draw_exponential(&self->tables, prng);
    case TT_PROCESS_GAMMA: return tt_draw_gamma_unit(&self->gamma, &self->tables, prng);
    case TT_PROCESS_UNIFORM: break;
    }
    return TT_DRAW_ONE;
}

/* The gap behind those that are kept, which is kept as well while there is room. */
static int64_t draw_behind_kept(struct tt_arrivals *self, int32_t model) {
    struct stream *stream = &self->streams[model];
    struct tt_kept_gaps *all = self->options.kept_gaps;
    struct tt_kept_stream *kept = &all->streams[model];
    if (stream->drawn == kept->count && all->room > 0) {
        tt_kept_gaps_add(all, model, draw(self, &kept->prng));
        return kept->gaps[stream->drawn++];
    }
    if (stream->drawn == kept->count) { /* the kept ones end here, and no more are added */
        stream->prng = kept->prng;
        stream->drawn++;
    }
    return draw(self, &stream->prng);
}

/* The next gap of the model's stream, from those that are kept or drawn. */
static inline int64_t draw_unit(struct tt_arrivals *self, int32_t model) {
    struct stream *stream = &self->streams[model];
    const struct tt_kept_gaps *all = self->options.kept_gaps;
    if (!all)
        return draw(self, &stream->prng);
    const struct tt_kept_stream *kept = &all->streams[model];
    if (stream->drawn < kept->count) {
        tt_line_fetch(&kept->gaps[stream->drawn + GAPS_AHEAD]); /* too many streams for hardware */
        return kept->gaps[stream->drawn++];
    }
    return draw_behind_kept(self, model);
}

static void seed_stream(struct tt_arrivals *self, int32_t model) {
    struct stream *stream = &self->streams[model];
    struct tt_kept_gaps *all = self->options.kept_gaps;
    tt_prng_init(&stream->prng, self->options.seed, hash_name(self->models[model].name));
    if (!all || all->streams[model].is_begun)
        return;
    all->streams[model].prng = stream->prng;
    all->streams[model].is_begun = true;
}

static void move(struct stream *stream, unsigned __int128 by_fine) {
    unsigned __int128 sum = by_fine + (uint64_t)stream->fine;
    unsigned __int128 at = (sum >> FINE_BITS) + (uint64_t)stream->at;
    stream->at = fine_of(at);
    stream->fine = (int64_t)(sum & ((1u << FINE_BITS) - 1));
}

static void enter_segment(struct tt_arrivals *self, int32_t model, int32_t segment,
                          int64_t starts_at) {
    struct stream *stream = &self->streams[model];
    const struct tt_rate_segment *given = &self->options.segments[segment];
    stream->segment = segment;
    stream->gap_fine = gap_at(self, model, given->rate);
    stream->segment_end_at = segment + 1 < self->options.segment_count
                                 ? tt_instant_add(starts_at, given->duration_ns)
                                 : TT_NEVER;
}

static unsigned __int128 fine_gap(int64_t unit, int64_t gap_fine) {
    return ((unsigned __int128)(uint64_t)unit * (uint64_t)gap_fine) >> 40;
}

/* Advances the stream by a variate of `unit` mean gaps (Q40), across the ends of segments. */
static void spend_in_segments(struct tt_arrivals *self, int32_t model, int64_t unit) {
    struct stream *stream = &self->streams[model];
    for (;;) {
        bool silent = stream->gap_fine == TT_NEVER;
        unsigned __int128 needed = silent ? 0 : fine_gap(unit, stream->gap_fine);
        if (stream->segment_end_at == TT_NEVER) {
            if (silent)
                stream->at = TT_NEVER;
            else
                move(stream, needed);
            return;
        }
        unsigned __int128 left =
            ((unsigned __int128)(uint64_t)(stream->segment_end_at - stream->at) << FINE_BITS) -
            (uint64_t)stream->fine;
        if (!silent && needed < left) {
            move(stream, needed);
            return;
        }
        if (!silent)
            unit -= (int64_t)((left << 40) / (uint64_t)stream->gap_fine);
        unit = unit > 0 ? unit : 0;
        stream->at = stream->segment_end_at;
        stream->fine = 0;
        enter_segment(self, model, stream->segment + 1, stream->at);
    }
}

/* Advances the stream by a variate of `unit` mean gaps (Q40). */
static inline void spend(struct tt_arrivals *self, int32_t model, int64_t unit) {
    struct stream *stream = &self->streams[model];
    if (stream->segment_end_at == TT_NEVER && stream->gap_fine != TT_NEVER)
        move(stream, fine_gap(unit, stream->gap_fine));
    else
        spend_in_segments(self, model, unit);
}

/* The requests of a model for `every` requests of all, by its share. */
static int64_t own_share(const struct tt_arrivals *self, int32_t model, int64_t every) {
    __int128 share = (__int128)every * self->models[model].weight + self->weight_sum - 1;
    return (int64_t)(share / self->weight_sum);
}

TT_APART static void take_step(struct tt_arrivals *self, int32_t model) {
    struct stream *stream = &self->streams[model];
    const struct tt_arrivals_options *options = &self->options;
    stream->next_step_at_count += own_share(self, model, options->step_every);
    stream->rate =
        tt_instant_min(tt_instant_add(stream->rate, options->step_rate), options->step_maximum);
    stream->gap_fine = gap_at(self, model, stream->rate);
}

/* Orders streams by their next request, then by number; a stream that ended comes last. */
static unsigned __int128 key_of(const struct tt_arrivals *self, int32_t model) {
    int64_t at = self->streams[model].at;
    at = at < self->options.duration_ns ? at : TT_NEVER;
    return (unsigned __int128)(uint64_t)at << 64 | (uint32_t)model;
}

static void play_all(struct tt_arrivals *self) {
    unsigned __int128 *node = self->losers;
    int32_t count = self->options.model_count;
    for (int32_t m = 0; m < count; m++)
        node[count + m] = key_of(self, m);
    for (size_t n = (size_t)count - 1; n >= 1; n--)
        node[n] = node[2 * n] < node[2 * n + 1] ? node[2 * n] : node[2 * n + 1];
    self->first = node[1];
    for (size_t n = 1; n < (size_t)count; n++) /* top down: the nodes below still hold winners */
        node[n] = node[2 * n] < node[2 * n + 1] ? node[2 * n + 1] : node[2 * n];
}

/* Replays the matches of the winner, stream `model`, after its key has changed. */
static void play_again(struct tt_arrivals *self, int32_t model) {
    unsigned __int128 winner = key_of(self, model);
    for (uint32_t n = (uint32_t)(self->options.model_count + model) / 2; n >= 1; n /= 2) {
        unsigned __int128 other = self->losers[n];
        bool loses = other < winner;
        self->losers[n] = loses ? winner : other;
        winner = loses ? other : winner;
    }
    self->first = winner;
}

static void start_stream(struct tt_arrivals *self, int32_t model) {
    struct stream *stream = &self->streams[model];
    const struct tt_arrivals_options *options = &self->options;
    seed_stream(self, model);
    tt_prng_init(&stream->lengths_prng, options->seed,
                 hash_name(self->models[model].name) ^ UINT64_C(0x6c656e6774687300));
    stream->rate = options->rate;
    stream->segment_end_at = TT_NEVER;
    stream->at = TT_NEVER;
    if (self->models[model].weight <= 0)
        return;
    stream->at = 0;
    if (options->segment_count > 0)
        enter_segment(self, model, 0, 0);
    else
        stream->gap_fine = first_gap(self, model, options->rate);
    if (options->step_every > 0)
        stream->next_step_at_count = own_share(self, model, options->step_every);
    /* Evenly spaced requests begin at once, others after a first gap. */
    spend(self, model, options->process == TT_PROCESS_UNIFORM ? 0 : draw_unit(self, model));
}

struct tt_arrivals *tt_arrivals_new(const struct tt_arrivals_options *options) {
    tt_assert(options->model_count > 0);
    tt_assert(!options->kept_gaps || options->kept_gaps->model_count == options->model_count);
    struct tt_arrivals *self = tt_allocate(1, sizeof(*self));
    size_t count = (size_t)options->model_count;
    struct tt_arrivals_model *models = tt_allocate(count, sizeof(*models));
    struct stream *streams = tt_allocate(count, sizeof(*streams));
    unsigned __int128 *losers = tt_allocate(2 * count, sizeof(*losers));
    memcpy(models, options->models, count * sizeof(*models));
    self->options = *options;
    self->models = models;
    self->streams = streams;
    self->losers = losers;
    tt_draw_tables_init(&self->tables);
    if (options->process == TT_PROCESS_GAMMA)
        tt_draw_gamma_init(&self->gamma, &self->tables, options->shape_ppm);
    for (size_t m = 0; m < count; m++)
        self->weight_sum += models[m].weight;
    for (int32_t m = 0; m < options->model_count; m++)
        start_stream(self, m);
    play_all(self);
    return self;
}

void tt_arrivals_free(struct tt_arrivals *take_arrivals) {
    if (!take_arrivals)
        return;
    free(take_arrivals->losers);
    free(take_arrivals->models);
    free(take_arrivals->streams);
    free(take_arrivals);
}

bool tt_arrivals_next(void *context, struct tt_sim_arrival *out_arrival) {
    struct tt_arrivals *self = context;
    if ((int64_t)(self->first >> 64) == TT_NEVER ||
        (self->options.request_limit > 0 && self->emitted >= self->options.request_limit))
        return false;
    int32_t m = (int32_t)self->first;
    struct stream *stream = &self->streams[m];
    const struct tt_arrivals_model *model = &self->models[m];
    *out_arrival = (struct tt_sim_arrival){.at = stream->at,
                                           .deadline_at = tt_instant_add(model->slo_ns, stream->at),
                                           .cancel_at = TT_NEVER,
                                           .model = m,
                                           .rows = model->rows,
                                           .length = model->length,
                                           .output_length = model->output_length,
                                           .exit_step = -1};
    if (model->lengths)
        tt_lengths_draw(model->lengths, &stream->lengths_prng, &out_arrival->length,
                        &out_arrival->output_length);
    if (model->slo_ns == TT_NEVER)
        out_arrival->deadline_at = TT_NEVER;
    self->emitted++;
    stream->count++;
    if (self->options.step_every > 0 && stream->count >= stream->next_step_at_count)
        take_step(self, m);
    spend(self, m, draw_unit(self, m));
    play_again(self, m);
    return true;
}

void tt_arrivals_zipf(int64_t exponent_ppm, int32_t count, int64_t *out_weights) {
    struct tt_draw_tables tables;
    tt_draw_tables_init(&tables);
    for (int32_t i = 0; i < count; i++) {
        int64_t log2_q40 = tt_draw_log2(&tables, (uint64_t)i + 1);
        int64_t power_q40 = (int64_t)((__int128)log2_q40 * exponent_ppm / 1000000);
        int64_t weight = tt_draw_scale_exp2(&tables, INT64_C(1) << 40, -power_q40);
        out_weights[i] = weight > 0 ? weight : 1;
    }
}
