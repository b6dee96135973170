//! The kinds of nodes that slicing tells apart.

/// What a node is. Names are clang's, shortened where C has one meaning for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A part that was left out, such as the condition of `for (;;)`.
    Absent,
    Unit,
    Function,
    Parameter,
    Variable,
    Field,
    Record,
    Enum,
    Enumerator,
    Typedef,
    LabelDecl,
    Annotation,
    PureAttribute,
    NoReturnAttribute,
    GnuInlineAttribute,
    /// The function is called, or has to be there, although nobody names it.
    RootAttribute,
    Attribute,
    // Statements.
    Compound,
    Declarations,
    If,
    While,
    Do,
    For,
    Switch,
    Case,
    Default,
    Break,
    Continue,
    Goto,
    IndirectGoto,
    Label,
    Return,
    Null,
    Assembly,
    AttributedStatement,
    // Expressions.
    DeclRef,
    Member,
    Subscript,
    Call,
    Unary,
    Binary,
    CompoundAssign,
    Conditional,
    BinaryConditional,
    OpaqueValue,
    Cast,
    ImplicitCast,
    Paren,
    Constant,
    FullExpr,
    Integer,
    Floating,
    Character,
    StringLiteral,
    PredefinedName,
    SizeOf,
    OffsetOf,
    InitList,
    ImplicitInit,
    CompoundLiteral,
    DesignatedUpdate,
    StatementExpr,
    VaArg,
    LabelAddress,
    Generic,
    /// Anything else: nothing is known about it.
    Other,
}

/// All kinds, by their numbers.
const ALL: &[Kind] = &[
    Kind::Absent,
    Kind::Unit,
    Kind::Function,
    Kind::Parameter,
    Kind::Variable,
    Kind::Field,
    Kind::Record,
    Kind::Enum,
    Kind::Enumerator,
    Kind::Typedef,
    Kind::LabelDecl,
    Kind::Annotation,
    Kind::PureAttribute,
    Kind::NoReturnAttribute,
    Kind::GnuInlineAttribute,
    Kind::RootAttribute,
    Kind::Attribute,
    Kind::Compound,
    Kind::Declarations,
    Kind::If,
    Kind::While,
    Kind::Do,
    Kind::For,
    Kind::Switch,
    Kind::Case,
    Kind::Default,
    Kind::Break,
    Kind::Continue,
    Kind::Goto,
    Kind::IndirectGoto,
    Kind::Label,
    Kind::Return,
    Kind::Null,
    Kind::Assembly,
    Kind::AttributedStatement,
    Kind::DeclRef,
    Kind::Member,
    Kind::Subscript,
    Kind::Call,
    Kind::Unary,
    Kind::Binary,
    Kind::CompoundAssign,
    Kind::Conditional,
    Kind::BinaryConditional,
    Kind::OpaqueValue,
    Kind::Cast,
    Kind::ImplicitCast,
    Kind::Paren,
    Kind::Constant,
    Kind::FullExpr,
    Kind::Integer,
    Kind::Floating,
    Kind::Character,
    Kind::StringLiteral,
    Kind::PredefinedName,
    Kind::SizeOf,
    Kind::OffsetOf,
    Kind::InitList,
    Kind::ImplicitInit,
    Kind::CompoundLiteral,
    Kind::DesignatedUpdate,
    Kind::StatementExpr,
    Kind::VaArg,
    Kind::LabelAddress,
    Kind::Generic,
    Kind::Other,
];

impl Kind {
    /// The kind of this number.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn of(name: &str) -> Self {
        match name {
            "TranslationUnitDecl" => Self::Unit,
            "FunctionDecl" => Self::Function,
            "ParmVarDecl" => Self::Parameter,
            "VarDecl" => Self::Variable,
            "FieldDecl" => Self::Field,
            "RecordDecl" => Self::Record,
            "EnumDecl" => Self::Enum,
            "EnumConstantDecl" => Self::Enumerator,
            "TypedefDecl" => Self::Typedef,
            "LabelDecl" => Self::LabelDecl,
            "AnnotateAttr" => Self::Annotation,
            "PureAttr" | "ConstAttr" => Self::PureAttribute,
            "NoReturnAttr" | "C11NoReturnAttr" | "AnalyzerNoReturnAttr" => Self::NoReturnAttribute,
            "GNUInlineAttr" => Self::GnuInlineAttribute,
            "ConstructorAttr" | "DestructorAttr" | "UsedAttr" | "IFuncAttr" => Self::RootAttribute,
            "CompoundStmt" => Self::Compound,
            "DeclStmt" => Self::Declarations,
            "IfStmt" => Self::If,
            "WhileStmt" => Self::While,
            "DoStmt" => Self::Do,
            "ForStmt" => Self::For,
            "SwitchStmt" => Self::Switch,
            "CaseStmt" => Self::Case,
            "DefaultStmt" => Self::Default,
            "BreakStmt" => Self::Break,
            "ContinueStmt" => Self::Continue,
            "GotoStmt" => Self::Goto,
            "IndirectGotoStmt" => Self::IndirectGoto,
            "LabelStmt" => Self::Label,
            "ReturnStmt" => Self::Return,
            "NullStmt" => Self::Null,
            "GCCAsmStmt" | "MSAsmStmt" => Self::Assembly,
            "AttributedStmt" => Self::AttributedStatement,
            "DeclRefExpr" => Self::DeclRef,
            "MemberExpr" => Self::Member,
            "ArraySubscriptExpr" => Self::Subscript,
            "CallExpr" => Self::Call,
            "UnaryOperator" => Self::Unary,
            "BinaryOperator" => Self::Binary,
            "CompoundAssignOperator" => Self::CompoundAssign,
            "ConditionalOperator" => Self::Conditional,
            "BinaryConditionalOperator" => Self::BinaryConditional,
            "OpaqueValueExpr" => Self::OpaqueValue,
            "CStyleCastExpr" => Self::Cast,
            "ImplicitCastExpr" => Self::ImplicitCast,
            "ParenExpr" => Self::Paren,
            "ConstantExpr" => Self::Constant,
            "ExprWithCleanups" => Self::FullExpr,
            "IntegerLiteral" => Self::Integer,
            "FloatingLiteral" => Self::Floating,
            "CharacterLiteral" => Self::Character,
            "StringLiteral" => Self::StringLiteral,
            "PredefinedExpr" => Self::PredefinedName,
            "UnaryExprOrTypeTraitExpr" => Self::SizeOf,
            "OffsetOfExpr" => Self::OffsetOf,
            "InitListExpr" => Self::InitList,
            "ImplicitValueInitExpr" => Self::ImplicitInit,
            "CompoundLiteralExpr" => Self::CompoundLiteral,
            "DesignatedInitUpdateExpr" => Self::DesignatedUpdate,
            "StmtExpr" => Self::StatementExpr,
            "VAArgExpr" => Self::VaArg,
            "AddrLabelExpr" => Self::LabelAddress,
            "GenericSelectionExpr" => Self::Generic,
            name if name.ends_with("Attr") => Self::Attribute,
            _ => Self::Other,
        }
    }

    pub(crate) fn is_declaration(self) -> bool {
        matches!(
            self,
            Self::Function
                | Self::Parameter
                | Self::Variable
                | Self::Field
                | Self::Record
                | Self::Enum
                | Self::Enumerator
                | Self::Typedef
                | Self::LabelDecl
        )
    }

    pub(crate) fn is_statement(self) -> bool {
        matches!(
            self,
            Self::Compound
                | Self::Declarations
                | Self::If
                | Self::While
                | Self::Do
                | Self::For
                | Self::Switch
                | Self::Case
                | Self::Default
                | Self::Break
                | Self::Continue
                | Self::Goto
                | Self::IndirectGoto
                | Self::Label
                | Self::Return
                | Self::Null
                | Self::Assembly
                | Self::AttributedStatement
        )
    }

    pub(crate) fn is_expression(self) -> bool {
        !self.is_statement()
            && !self.is_declaration()
            && !matches!(
                self,
                Self::Absent
                    | Self::Unit
                    | Self::Annotation
                    | Self::PureAttribute
                    | Self::NoReturnAttribute
                    | Self::RootAttribute
                    | Self::Attribute
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_numbers() {
        for (number, kind) in ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        assert_eq!(ALL.last(), Some(&Kind::Other), "the last one is missing");
        assert_eq!(Kind::numbered(ALL.len() as u8), None);
    }
}
