//! Whole behaviours: what a cluster promises, each file one promise. One program, so that it is linked once.

mod access;
mod answers;
mod bad_input;
mod causes;
mod conflicts;
mod containers;
mod custom_resources;
mod definitions;
mod deletion;
mod escalation;
mod fences;
mod flows;
mod generations;
mod kit;
mod limits;
mod lists_and_watches;
mod manager;
mod notations;
mod own_objects;
mod schemas;
mod services;
mod several_clusters;
mod ten_steps;
mod volumes;
mod watches;
mod webhooks;
