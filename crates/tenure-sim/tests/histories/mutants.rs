//! Every known-bad variant is caught, by the checker that should, and the same histories without it
//! break nothing.

use tenure_sim::{Missed, Mutant, tell};

fn is_caught(mutant: Mutant) {
    let story = match mutant.hunt() {
        Ok(_) => return,
        Err(Missed::Otherwise(caught)) => tell(&caught.options).map(|story| story.to_string()),
        Err(Missed::ByAccident(options)) => tell(&options).map(|story| story.to_string()),
        Err(_) => None,
    };
    panic!("{mutant:?} was not caught as it must be: {:?}\n{}", mutant.known(), story.unwrap_or_default());
}

#[test]
fn one_owner_for_all_attempts_is_caught() {
    is_caught(Mutant::OneOwner);
}

#[test]
fn validity_that_is_counted_from_the_answers_is_caught() {
    is_caught(Mutant::LateStart);
}

#[test]
fn fences_of_two_proposals_counted_together_are_caught() {
    is_caught(Mutant::MixedFences);
}

#[test]
fn the_maximum_of_counters_is_caught() {
    is_caught(Mutant::MaxOfCounters);
}

#[test]
fn a_release_after_a_failed_extension_is_caught() {
    is_caught(Mutant::ReleaseOnFailedExtend);
}

#[test]
fn an_extension_that_shortens_is_caught() {
    is_caught(Mutant::ExtendShortens);
}

#[test]
fn an_extension_after_the_end_is_caught() {
    is_caught(Mutant::LateExtend);
}

#[test]
fn half_of_the_nodes_as_a_majority_is_caught() {
    is_caught(Mutant::HalfIsEnough);
}

#[test]
fn counting_a_node_in_quarantine_is_caught() {
    is_caught(Mutant::QuarantineIgnored);
}

#[test]
fn a_server_that_votes_twice_is_caught() {
    is_caught(Mutant::DuplicateNode);
}

#[test]
fn a_key_that_is_set_before_its_fence_is_caught() {
    is_caught(Mutant::KeyBeforeFence);
}

#[test]
fn counting_a_key_at_once_that_was_put_back_is_caught() {
    is_caught(Mutant::HealCounts);
}

#[test]
fn an_earlier_copy_of_a_handover_that_counts_a_healed_node_at_once_is_caught() {
    is_caught(Mutant::EarlierCopy);
}

#[test]
fn counting_a_key_at_once_whose_answer_was_discarded_is_caught() {
    is_caught(Mutant::DiscardedSetCounts);
}

#[test]
fn fences_from_before_a_loss_of_memory_are_caught() {
    is_caught(Mutant::FloorIgnored);
}

#[test]
fn a_flush_that_nobody_sees_is_caught() {
    is_caught(Mutant::RecordUnchecked);
}

#[test]
fn databases_that_change_places_unseen_are_caught() {
    is_caught(Mutant::RecordByName);
}

#[test]
fn keys_without_a_guard_band_are_caught() {
    is_caught(Mutant::NoGuardBand);
}

#[test]
fn a_pipeline_in_place_of_a_script_is_caught() {
    is_caught(Mutant::NativePipeline);
}

#[test]
fn granting_to_an_owner_whatever_its_fence_is_caught() {
    is_caught(Mutant::SameOwnerAnyFence);
}

#[test]
fn following_fences_of_a_clock_that_was_set_back_is_caught() {
    is_caught(Mutant::FollowsAhead);
}

#[test]
fn refused_attempts_that_raise_the_fence_are_caught() {
    is_caught(Mutant::RefusedRaise);
}

#[test]
fn trimming_by_the_clock_of_a_client_is_caught() {
    is_caught(Mutant::TrimByClient);
}

#[test]
fn trimming_without_a_lower_bound_is_caught() {
    is_caught(Mutant::TrimUnchecked);
}

#[test]
fn a_first_start_judged_from_a_majority_is_caught() {
    is_caught(Mutant::FreshByMajority);
}

#[test]
fn an_earlier_life_that_only_one_client_knows_of_is_caught() {
    is_caught(Mutant::ReturnedUnwritten);
}

#[test]
fn clients_with_other_settings_are_caught() {
    is_caught(Mutant::OtherSettings);
}

#[test]
fn a_refused_client_that_takes_over_an_emptied_node_is_caught() {
    is_caught(Mutant::RefusedTakesOver);
}

#[test]
fn a_promotion_that_nobody_sees_is_caught() {
    is_caught(Mutant::PromotionUnseen);
}

#[test]
fn a_node_that_refuses_everybody_behind_a_waiter_is_caught() {
    is_caught(Mutant::RefusesBehind);
}

#[test]
fn a_clock_that_nobody_watches_is_caught() {
    is_caught(Mutant::ClockUnwatched);
}

#[test]
fn a_watch_by_ones_own_guard_band_is_caught() {
    is_caught(Mutant::ClockOwnGuard);
}

#[test]
fn counting_an_answer_to_an_older_round_is_caught() {
    is_caught(Mutant::OlderRound);
}

#[test]
fn a_loss_that_is_told_at_the_end_is_caught() {
    is_caught(Mutant::LossAtEnd);
}

#[test]
fn a_range_of_fences_of_which_the_smallest_is_kept_is_caught() {
    is_caught(Mutant::FenceRangeOverlap);
}

#[test]
fn a_range_that_serves_those_who_came_later_is_caught() {
    is_caught(Mutant::RangeServesLate);
}

#[test]
fn one_fence_for_all_that_a_lock_is_passed_on_to_is_caught() {
    is_caught(Mutant::PassedSameFence);
}

#[test]
fn passing_on_what_is_over_is_caught() {
    is_caught(Mutant::PassedAfterEnd);
}

#[test]
fn passing_on_what_others_know_the_token_of_is_caught() {
    is_caught(Mutant::PassedAfterCopy);
}

#[test]
fn passing_on_for_too_long_is_caught() {
    is_caught(Mutant::PassedForLong);
}

#[test]
fn a_waiter_that_does_not_yield_is_caught() {
    is_caught(Mutant::NoYield);
}

#[test]
fn late_grants_of_renewals_that_are_dropped_are_caught() {
    is_caught(Mutant::RenewalForgotten);
}

#[test]
fn a_node_timeout_that_does_not_follow_is_caught() {
    is_caught(Mutant::TimeoutFixed);
}

#[test]
fn a_release_of_anybodys_key_is_caught() {
    is_caught(Mutant::ReleaseAnybodys);
}

#[test]
fn a_lost_attempt_that_is_not_undone_is_caught() {
    is_caught(Mutant::NoCleanUp);
}

#[test]
fn every_mutant_has_a_test_and_a_line_in_the_documents() {
    let (tests, documents) =
        (include_str!("mutants.rs"), include_str!("../../../../docs/explanation/simulator.md"));
    for mutant in Mutant::ALL {
        assert!(tests.contains(&format!("is_caught(Mutant::{mutant:?});")), "{mutant:?}");
        assert!(documents.contains(&format!("| `{mutant:?}` | {} |", mutant.known().wrong)), "{mutant:?}");
    }
}

#[test]
fn an_undo_that_overtakes_its_acquire_is_caught() {
    is_caught(Mutant::BatchOvertaken);
}

#[test]
fn a_lock_that_is_twice_in_a_batch_is_caught() {
    is_caught(Mutant::BatchTwice);
}

#[test]
fn one_answer_for_a_whole_batch_is_caught() {
    is_caught(Mutant::BatchAsOne);
}

#[test]
fn readers_that_nobody_looks_for_are_caught() {
    is_caught(Mutant::ReadersAside);
}

#[test]
fn a_shared_lock_that_ends_with_the_last_to_come_is_caught() {
    is_caught(Mutant::MarkerOfLast);
}

#[test]
fn readers_whose_fences_are_not_kept_are_caught() {
    is_caught(Mutant::ReaderFenceUnrecorded);
}

#[test]
fn a_reader_that_renews_all_others_is_caught() {
    is_caught(Mutant::RenewsEverybody);
}

#[test]
fn a_writer_that_becomes_a_reader_with_a_gap_is_caught() {
    is_caught(Mutant::DowngradeGap);
}

#[test]
fn holds_that_count_without_their_key_are_caught() {
    is_caught(Mutant::HoldsWithoutMarker);
}

#[test]
fn a_node_that_refuses_readers_behind_any_writer_is_caught() {
    is_caught(Mutant::WriterInLineRefuses);
}

#[test]
fn readers_that_give_way_to_nobody_are_caught() {
    is_caught(Mutant::ReadersNeverGiveWay);
}

#[test]
fn holds_that_are_counted_up_and_down_are_caught() {
    is_caught(Mutant::CountsIncremented);
}

#[test]
fn counts_that_each_process_writes_for_itself_are_caught() {
    is_caught(Mutant::CountsAbsolute);
}

#[test]
fn an_owner_id_in_place_of_a_token_is_caught() {
    is_caught(Mutant::OwnerIsToken);
}

#[test]
fn a_fence_of_its_own_for_every_hold_of_an_owner_is_caught() {
    is_caught(Mutant::JoinOwnFence);
}

#[test]
fn an_owner_that_waits_behind_those_who_wait_for_it_is_caught() {
    is_caught(Mutant::JoinerYields);
}

#[test]
fn several_names_of_which_a_part_is_extended_are_caught() {
    is_caught(Mutant::SetExtendsPart);
}

#[test]
fn several_names_of_which_a_part_is_granted_are_caught() {
    is_caught(Mutant::SetAcquiresPart);
}

#[test]
fn a_name_that_is_passed_back_because_others_are_held_is_caught() {
    is_caught(Mutant::SetPassesBack);
}

#[test]
fn a_slot_that_is_granted_for_another_one_is_caught() {
    is_caught(Mutant::SlotsMixed);
}

#[test]
fn holders_of_a_semaphore_that_are_only_counted_are_caught() {
    is_caught(Mutant::CountingSet);
}

#[test]
fn a_period_that_ends_with_the_release_is_caught() {
    is_caught(Mutant::PeriodEndsWithRelease);
}

#[test]
fn a_period_that_begins_with_the_release_is_caught() {
    is_caught(Mutant::PeriodSetByRelease);
}

#[test]
fn a_period_that_counts_from_the_fence_is_caught() {
    is_caught(Mutant::PeriodByFence);
}
