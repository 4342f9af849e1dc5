//! Roles of templates.

use super::*;
use crate::plan::{Asked, Verdict, alarm_arn, table_arn};

fn asked(action: &str, resource: String, keys: &[&str]) -> Asked {
    let leading_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Asked { action: action.to_owned(), resource, leading_keys }
}

#[test]
fn each_function_of_the_shipped_template_has_its_role() {
    let template = load_template(&shipped(), &[]).expect("the shipped template");
    let roles = template.functions.iter().map(|function| function.role.as_ref().expect("a role"));
    let roles = roles.map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(roles, ["WriteRole", "ReadRole", "ScaleRole", "RebalanceRole"]);
    let role = |name: &str| {
        template.roles.iter().find(|role| role.name == name).expect("a role of the template")
    };
    let may = |of: &str, action: &str, resource: String, keys: &[&str]| {
        matches!(role(of).judge(&asked(action, resource, keys)), Verdict::Allowed { .. })
    };
    let (main, metadata) = (table_arn("MainTable"), table_arn("MetadataTable"));
    let update = "dynamodb:UpdateItem";
    assert!(may("ReadRole", update, metadata.clone(), &["_ds_load#a"]));
    assert!(!may("ReadRole", update, metadata.clone(), &["a"]), "only ledgers");
    assert!(!may("ReadRole", update, main.clone(), &["_ds_load#a"]), "only of the metadata");
    assert!(may("WriteRole", update, metadata, &["a"]));
    assert!(!may("WriteRole", "dynamodb:Scan", main.clone(), &[]));
    let rearm = "cloudwatch:SetAlarmState";
    assert!(may("ScaleRole", rearm, alarm_arn("dynashard-write-throttles"), &[]));
    assert!(!may("ScaleRole", rearm, alarm_arn("other"), &[]));
    assert!(!may("ScaleRole", "dynamodb:UpdateTable", main, &[]), "unless it scales the capacity");
}

#[test]
fn a_permission_that_depends_on_a_parameter_comes_with_it() {
    let given = overrides(&[("ExistingMainTable", "orders"), ("CapacityScaling", "function")]);
    let template = load_template(&shipped(), &given).expect("the shipped template");
    let scale = template.roles.iter().find(|role| role.name == "ScaleRole").expect("a role");
    let may = |action: &str, table: &str| scale.judge(&asked(action, table_arn(table), &[]));
    assert!(matches!(may("dynamodb:UpdateTable", "orders"), Verdict::Allowed { .. }));
    assert_eq!(may("dynamodb:UpdateTable", "MainTable"), Verdict::NotAllowed);
}

#[test]
fn nothing_in_a_policy_is_passed_over() {
    let role = |statement: &str| {
        with_resources(&format!(
            "  Role:\n    Type: AWS::IAM::Role\n    Properties:\n      Policies:\n        - \
             PolicyName: p\n          PolicyDocument:\n            Statement:\n              - {statement}\n"
        ))
    };
    let allow = "Effect: Allow, Resource: \"*\"";
    for (statement, expected) in [
        ("{ Effect: Perhaps, Action: \"*\", Resource: \"*\" }", "t.yaml:10: Effect of a statement"),
        ("{ Effect: Allow, Action: \"*\" }", "a statement of Role has no Resource"),
        ("{ Effect: Allow, Action: \"*\", Resource: table/a }", "is neither * nor an ARN: table/a"),
        (&format!("{{ {allow}, NotAction: \"*\" }}"), "does not know the property NotAction"),
        (&format!("{{ {allow}, Action: s3:GetObject }}"), "does not know the action s3:GetObject"),
        (
            &format!("{{ {allow}, Action: \"*\", Condition: {{ StringEquals: {{ a: b }} }} }}"),
            "does not know the property StringEquals of Condition",
        ),
        (
            &format!(
                "{{ {allow}, Action: \"*\", Condition: {{ \"ForAllValues:StringLike\": {{ a: b }} }} }}"
            ),
            "does not know the property a of ForAllValues:StringLike",
        ),
    ] {
        let error = problem(&role(statement));
        assert!(error.contains(expected), "{statement}: {error}");
    }
    let key = "Action: \"kms:ReEncrypt*\", Condition: { StringEquals: { \"kms:ViaService\": a } }";
    load(&role(&format!("{{ {allow}, {key} }}"))).expect("not checked");
    load(&role(&format!("{{ {allow}, Action: [logs:PutLogEvents, dynamodb:*] }}"))).expect("known");
}

#[test]
fn a_function_whose_role_is_elsewhere_does_not_start() {
    let function = "  F:\n    Type: AWS::Serverless::Function\n    \
        Metadata: { BuildMethod: rust-cargolambda, BuildProperties: { Binary: f } }\n    \
        Properties:\n      Runtime: provided.al2023\n      \
        Role: arn:aws:iam::123456789012:role/Elsewhere\n";
    let error = problem(&with_resources(function));
    assert!(error.contains("t.yaml:8: the template has no role Elsewhere"), "{error}");
}
