/* What a paper publishes, and what our later runs must give again: the file that `tutti reproduce`
 * reads (proto/facts.proto), checked.
 *
 * A fact is *evidence* if the paper publishes its number or worked example; a class says how near
 * ours is, by the same limits for all. It is *regression* if it has `holds`. It may be both. In a
 * file about a world in real time it may be neither: then it is *measured*.
 *
 * Life: _open reads a file and rejects invalid ones with file:line; _class and _judge compare a
 * measured value; _close. It measures nothing (fact_runs.h does), and it knows no paper: all
 * numbers are in the file. */
#ifndef TT_LAB_FACTS_FACTS_H
#define TT_LAB_FACTS_FACTS_H

#include "facts.pb-c.h"
#include "model/text/textproto.h"

#include <stdbool.h>

enum tt_fact_class {
    TT_FACT_WITHIN_5, /* |ours / published - 1| <= 5 % */
    TT_FACT_WITHIN_10,
    TT_FACT_WITHIN_25,
    TT_FACT_BETTER,        /* farther away, on the side that `better` names */
    TT_FACT_WORSE,         /* farther away otherwise */
    TT_FACT_NOT_ATTEMPTED, /* no value */
    TT_FACT_CLASSES,
};
enum tt_fact_verdict {
    TT_FACT_HOLDS,
    TT_FACT_FAILS,
    TT_FACT_UNJUDGED, /* --quick has no bound for it */
};

enum { TT_FACT_SEEDS_MAX = 99 };

struct tt_facts {
    char *path;   /* as given; for messages */
    char *folder; /* relative file names start here */
    Tutti__Facts *message;
    struct tt_textproto_places places;
};

/* Errors: NOT_FOUND, IO, NO_MEMORY; INVALID with file:line. */
TT_MUST_CHECK enum tt_err tt_facts_open(struct tt_facts *self, const char *path,
                                        struct tt_error *why);
void tt_facts_close(struct tt_facts *self);
/* The fact called `id`, or NULL. */
const Tutti__Fact *tt_facts_find(const struct tt_facts *self, const char *id);
/* INVALID, with "path:line: " before the text, where `field` of `message` stands. */
enum tt_err tt_facts_wrong(const struct tt_facts *self, const void *message, const char *field,
                           struct tt_error *why, const char *format, ...) TT_PRINTF(5, 6);

/* Whether the runs take place in real time: the world is emulated or real. */
bool tt_facts_in_real_time(const struct tt_facts *self);
static inline bool tt_fact_is_evidence(const Tutti__Fact *fact) { return fact->published > 0; }
/* The class of evidence. `ours` is in the fact's unit, of a trace the share that is reproduced;
 * NAN: not attempted. */
enum tt_fact_class tt_fact_class_of(const Tutti__Fact *fact, double ours);
const char *tt_fact_class_name(enum tt_fact_class class);
/* For facts with `holds`; NAN never holds. With `quick`, goals, earlier simulations and bounds are
 * 3 points wider, since runs are shorter, and the golden value is that of quick runs. */
enum tt_fact_verdict tt_fact_judge(const Tutti__Fact *fact, double ours, bool quick);

#endif
