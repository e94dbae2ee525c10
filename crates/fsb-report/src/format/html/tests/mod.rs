mod comparison;
mod run;
