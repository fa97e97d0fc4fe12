/* The cheapest way to put requests of one model into batches, at given costs (batch_costs.h): a
 * lower bound, for every value of a request.
 *
 * Given a value v >= 0 of a request in time, g(v) is a lower bound on
 *   (cost of the batches) - v * (requests in time)
 * over all schedules. So a schedule with n requests of the model in time costs at least g(v) + v n.
 *
 * Proof. A schedule's batches are disjoint sets of requests; a set that starts at s costs at least
 * its cost in batch_costs.h, call it c. Consider all families of disjoint sets that can start, with
 * the objective sum c - v * (members). Among the best families take one whose members have the
 * largest sum of numbers; among those, one whose spans (last - first number) have the smallest sum.
 *   1. No request outside of the family lies within a span. Else let it replace the first member of
 *      that set: the set can start whenever it could before, and the sum of numbers grows.
 *   2. No two spans cross (f1 < f2 <= g1 < g2). Else give the first |S1| of their union to S1, the
 *      others to S2. The first S1' has no earlier deadline and no later arrival to wait for than
 * S1, nor has S2' than S2. Both cost no more, and the spans are shorter.
 *   3. A span within another one (f1 < f2 <= g2 < g1) belongs to the larger set: |S2| > |S1|.
 *      Else let s be the cheapest start of S2. Either arrived[g1] <= s, or s <= deadline[f1] -
 *      l(|S2|): if neither, deadline[f1] - l(|S2|) < s < arrived[g1] <= deadline[f1] - l(|S1|),
 *      although l(|S2|) <= l(|S1|). In the first case give the last |S2| of the union to S2, in the
 *      second case the first; the others to S1. S2 can start at s, S1 whenever it could before, and
 *      the spans are shorter.
 * So a set that contains no other span is f, f + 1, ..., f + b - 1: it costs its whole. A set of b
 * that contains another span spans at least b + (b + 1) requests. Each of its members costs at
 * least its share, and any number of such members may lie side by side. The recursion G(0) = 0 G(j)
 * = min(G(j - 1), G(j - 1) + share(j - 1) - v, min over b of G(j - b) + whole - v b) has all of
 * these families among its choices. g(v) = G(count).
 *
 * Whole numbers throughout. Life: _init; _solve for any values, each O(count * largest); _fini. */
#ifndef TT_LAB_CLAIRVOYANT_BATCH_PARTITION_H
#define TT_LAB_CLAIRVOYANT_BATCH_PARTITION_H

#include "lab/clairvoyant/batch_costs.h"

struct tt_batch_partition {
    const struct tt_batch_costs *costs; /* borrowed */
    int64_t *best;                      /* G: [count + 1] */
    int32_t *choice;                    /* of G(j): a batch of so many; 0: given up; -1: a share */
    int64_t served;                     /* requests in time of the last solution */
};

void tt_batch_partition_init(struct tt_batch_partition *self, const struct tt_batch_costs *costs);
void tt_batch_partition_fini(struct tt_batch_partition *self);
/* g(value); also sets `served`. */
int64_t tt_batch_partition_solve(struct tt_batch_partition *self, int64_t value);
/* Adds the last solution's load to load[padded + 1]: the differences between neighbouring cells of
 * the number of devices in use. */
void tt_batch_partition_add_load(const struct tt_batch_partition *self, int64_t cell_ns,
                                 double *load);

#endif
