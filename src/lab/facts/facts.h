/* What a paper claims: the file that `tutti reproduce` reads (proto/facts.proto), checked.
 *
 * Life: _open reads a file and rejects invalid ones with file:line; _judge compares a measured
 * value with the claim of one fact; _close. It measures nothing (fact_runs.h does), and it knows no
 * paper: all claims are in the file. */
#ifndef TT_LAB_FACTS_FACTS_H
#define TT_LAB_FACTS_FACTS_H

#include "facts.pb-c.h"
#include "model/text/textproto.h"

enum tt_fact_verdict {
    TT_FACT_HOLDS,
    TT_FACT_FAILS,    /* claimed, and outside its bounds */
    TT_FACT_REPORTED, /* nothing was claimed */
};

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

/* `ours` is in the fact's unit; NAN never holds. `extra` (a share, >= 0) widens every bound but
 * that of a golden run, for runs that are shorter than those for which the bounds were set. */
enum tt_fact_verdict tt_fact_judge(const Tutti__Fact *fact, double ours, double extra);

#endif
